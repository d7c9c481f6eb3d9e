#!/usr/bin/env python3
"""Builds the site of the project's pages in dist/site, with mdBook, the explorer and the documentation of core.

The pages stay where they are. This copies them to a folder for mdBook, and changes every link to what it leads to in
the site: another page, or a copy of the file as text. A link to a folder leads to its README, or to a list of its
files.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
BOOK = ROOT / ".run" / "site"
SITE = ROOT / "dist" / "site"
MDBOOK = ROOT / ".tools" / "mdbook" / "bin" / "mdbook"

# The pages in the order in which a reader needs them, by part. A deeper page is indented by two spaces.
CONTENTS = """
README.md
examples/explorer/README.md
# Operators
envoy/own-cluster.md
filter/README.md
envoy/README.md
  envoy/operations.md
istio/README.md
examples/README.md
  examples/kubernetes/README.md
  examples/envoy-gateway/README.md
  examples/docker-compose/README.md
  examples/observability/README.md
CHANGELOG.md
.github/SECURITY.md
# Developers of clients
examples/clients/README.md
examples/shippers/README.md
examples/writers.md
# Evidence
k6/README.md
{reports}
tests/README.md
  tests/clients/README.md
# Contributors
CONTRIBUTING.md
.github/CODE_OF_CONDUCT.md
.github/RELEASE.md
"""

# The first lines of two pages, with links to what the site has beside the pages. The menu has them too: site.js.
FIRST_LINES = {
    "examples/explorer/README.md":
        '<p><a href="{}explorer/index.html">Open the explorer</a>. It runs in your browser, and sends nothing.</p>',
    "CONTRIBUTING.md": '<p><a href="{}api/index.html">Documentation of core</a>, made from its sources.</p>',
}

FORWARD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Documentation of core</title>
<meta http-equiv="refresh" content="0; url=bulk_reshuffle/index.html">
<a href="bulk_reshuffle/index.html">Documentation of core</a></html>
"""

LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^ *(```|~~~)")


class Site:
    def __init__(self):
        self.pages = {}  # the path of each page to its title
        self.copies = set()  # the files and folders that pages lead to

    def build(self):
        shutil.rmtree(BOOK, ignore_errors=True)
        shutil.rmtree(SITE, ignore_errors=True)
        reports = sorted((str(path.relative_to(ROOT)) for path in ROOT.glob("k6/results/*/*.md")), reverse=True)
        contents = CONTENTS.format(reports="\n".join("  " + report for report in reports)).strip().splitlines()
        absent = markdown() - {line.strip() for line in contents}
        if absent:
            sys.exit("CONTENTS lacks {}.".format(", ".join(sorted(absent))))
        self.pages = {line.strip(): title(line.strip()) for line in contents if not line.startswith("#")}
        summary = ["# Summary", ""]
        for line in contents:
            if line.startswith("#"):
                summary += ["", line, ""]
                continue
            page = line.strip()
            indent = " " * (len(line) - len(page))
            summary.append("{}- [{}]({})".format(indent, self.pages[page], place(page)))
            write(BOOK / "src" / place(page), self.text(page))
        write(BOOK / "src" / "SUMMARY.md", "\n".join(summary) + "\n")
        for path in self.copies:
            self.copy(path)
        for file in ["book.toml", "site.css", "site.js"]:
            shutil.copy(HERE / file, BOOK / file)
        run([str(MDBOOK), "build", "--dest-dir", str(SITE), str(BOOK)])
        shutil.copytree(ROOT / "dist" / "explorer", SITE / "explorer")
        shutil.copytree(documentation(), SITE / "api")
        write(SITE / "api" / "index.html", FORWARD)
        (SITE / ".nojekyll").touch()
        check_links()

    def text(self, page):
        """Returns a page's text, with its links changed."""
        lines, is_code = [], False
        for line in (ROOT / page).read_text().splitlines():
            if FENCE.match(line):
                is_code = not is_code
            lines.append(line if is_code else LINK.sub(lambda found: self.link(page, *found.groups()), line))
        if page in FIRST_LINES:
            lines.insert(1, "\n" + FIRST_LINES[page].format("../" * page.count("/")))
        return "\n".join(lines) + "\n"

    def link(self, page, before, link, after):
        path, hash, anchor = link.partition("#")
        if not path or re.match(r"[a-z]+:", link):
            return before + link + after
        target = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if (ROOT / target / "README.md").is_file():
            target += "/README.md"
        if target in self.pages:
            to = place(target)
        else:
            self.copies.add(target)
            to = copy_of(target)
        return before + relative(to, page) + hash + anchor + after

    def copy(self, path):
        source, target = ROOT / path, BOOK / "src" / copy_of(path)
        if source.is_dir():
            files = subprocess.run(["git", "ls-files"], cwd=str(source), stdout=subprocess.PIPE, check=True)
            write(target, "The files of {}:\n\n{}".format(path, files.stdout.decode()))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def markdown():
    """Returns the paths of all pages, except those that are forms."""
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=str(ROOT), stdout=subprocess.PIPE, check=True)
    return set(files.stdout.decode().split()) - {".github/PULL_REQUEST_TEMPLATE.md"}


class Links(HTMLParser):
    """The links and the anchors of a file of the site."""

    def __init__(self, file):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        self.links += [values[name] for name in ("href", "src") if values.get(name)]


def check_links():
    """Fails if a link of a page does not lead to a file of the site, or to an anchor in it."""
    # rustdoc checks its own links.
    files = [file for file in SITE.glob("**/*.html") if SITE / "api" not in file.parents]
    pages = {file: Links(file) for file in files}
    broken = []
    for file, page in pages.items():
        for link in page.links:
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = Path(os.path.normpath(str(file.parent / path))) if path else file
            is_anchor = not anchor or target not in pages or anchor in pages[target].anchors
            if not target.is_file() or not is_anchor:
                broken.append("{}: {}".format(file.relative_to(SITE), link))
    if broken:
        sys.exit("These links lead nowhere:\n" + "\n".join(broken))


def title(page):
    """Returns a page's first heading, without code marks."""
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("# "):
            return line[2:].replace("`", "")
    raise SystemExit("{} has no heading".format(page))


def place(page):
    """Returns a page's path for mdBook. Hosts of sites leave out hidden folders."""
    return re.sub(r"README\.md$", "index.md", page.replace(".github/", "project/"))


def copy_of(path):
    """Returns the path of a file's copy. With this ending, browsers show it."""
    return path if path.endswith((".png", ".svg")) else place(path.replace("/.", "/").lstrip(".")) + ".txt"


def relative(target, page):
    return os.path.relpath(target, os.path.dirname(place(page)) or ".")


def documentation():
    """Builds the documentation of core, and returns its folder, which has nothing else."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "site"
    shutil.rmtree(target / "doc", ignore_errors=True)
    run(["cargo", "doc", "--quiet", "--package", "bulk-reshuffle", "--no-deps", "--lib", "--target-dir", str(target)])
    return target / "doc"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(command):
    done = subprocess.run(command, cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit("{} has failed:\n{}".format(" ".join(command), done.stdout.decode(errors="replace")))


if __name__ == "__main__":
    Site().build()
