#!/usr/bin/env python3
"""Checks that a compiled filter imports nothing but what Envoy and Istio give to a proxy-wasm plug-in.

    check_imports.py dist/bulk_reshuffle.wasm
"""

import sys

# The part of WASI that Envoy's hosts have in common. No files, no sockets.
WASI = {"clock_time_get", "environ_get", "environ_sizes_get", "fd_write", "proc_exit", "random_get"}
MAGIC = b"\0asm\x01\0\0\0"
IMPORT_SECTION = 2
FUNCTION, TABLE, MEMORY, GLOBAL = range(4)


class Reader:
    """Reads a WebAssembly binary from front to back."""

    def __init__(self, data):
        self.data = data
        self.place = 0

    def bytes(self, count):
        if self.place + count > len(self.data):
            raise ValueError("the file ends too early")
        self.place += count
        return self.data[self.place - count:self.place]

    def byte(self):
        return self.bytes(1)[0]

    def number(self):
        """An unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self):
        return self.bytes(self.number()).decode()

    def limits(self):
        has_maximum = self.number() & 1
        for _ in range(1 + has_maximum):
            self.number()

    def skip_import_type(self):
        kind = self.byte()
        if kind == FUNCTION:
            self.number()
        elif kind == TABLE:
            self.byte()
            self.limits()
        elif kind == MEMORY:
            self.limits()
        elif kind == GLOBAL:
            self.bytes(2)
        else:
            raise ValueError("unknown kind of import: {}".format(kind))


def imports(data):
    """Yields module and name of every import."""
    reader = Reader(data)
    if reader.bytes(len(MAGIC)) != MAGIC:
        raise ValueError("not a WebAssembly module")
    while reader.place < len(data):
        section = reader.byte()
        content = Reader(reader.bytes(reader.number()))
        if section == IMPORT_SECTION:
            for _ in range(content.number()):
                yield content.text(), content.text()
                content.skip_import_type()


def is_allowed(module, name):
    if module == "env":
        return name.startswith("proxy_")
    return module == "wasi_snapshot_preview1" and name in WASI


def main(path):
    try:
        with open(path, "rb") as file:
            found = list(imports(file.read()))
    except (OSError, ValueError) as error:
        return "{}: {}".format(path, error)
    refused = sorted("{}.{}".format(*one) for one in found if not is_allowed(*one))
    if refused:
        return "{} imports what a proxy-wasm host does not promise: {}".format(path, ", ".join(refused))
    print("{}: {} imports, all of them allowed".format(path, len(found)))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
