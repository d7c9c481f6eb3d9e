#!/usr/bin/env python3
"""Serves the explorer on loopback.

    serve.py                                          serves only the page
    serve.py http://127.0.0.1:9200/_bulk_reshuffle    also serves a running filter's admin path, at /filter

A browser does not let a page read other addresses, so this server forwards the filter's status, state and sample, but
no other path. PORT sets the port.
"""

import os
import sys
import urllib.error
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "dist" / "explorer"
TOLD = ("/filter/status", "/filter/state", "/filter/sample")
TIMEOUT = 15  # seconds; the filter waits up to ten for a request to show


class Handler(SimpleHTTPRequestHandler):
    admin = None

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(FOLDER))

    def do_GET(self):
        if self.admin is None or self.path.partition("?")[0] not in TOLD:
            return super().do_GET()
        try:
            with urllib.request.urlopen(self.admin + self.path[len("/filter"):], timeout=TIMEOUT) as answer:
                self.answer(answer.status, answer.headers.get_content_type(), answer.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, "text/plain", error.read())
        except OSError as error:
            self.answer(502, "text/plain", str(error).encode())

    def answer(self, status, content_type, body):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(admin=None):
    if not (FOLDER / "index.html").exists():
        sys.exit("serve.py: there is no {}. Run `make explorer` first.".format(FOLDER))
    Handler.admin = admin.rstrip("/") if admin else None
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    print("http://127.0.0.1:{}/".format(server.server_port), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:2])
