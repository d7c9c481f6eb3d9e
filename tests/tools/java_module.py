"""Makes some of the modules that a compiled Java module requires optional."""

import shutil
import struct
import zipfile

DESCRIPTOR = "module-info.class"
STATIC_PHASE = 0x0040  # `requires static`: needed to compile, not to run

# Class file format, chapter 4 of the Java Virtual Machine Specification: the constants' tags, and their sizes in bytes.
UTF8, MODULE = 1, 19
TAKES_TWO_PLACES = (5, 6)
CONSTANT_BYTES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def make_optional(jar, names):
    """Changes the module in the jar so that it starts without the named modules."""
    changed = jar.with_suffix(".changed")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry, relaxed(content, names) if entry.filename == DESCRIPTOR else content)
    shutil.move(str(changed), str(jar))


def relaxed(descriptor, names):
    content = bytearray(descriptor)
    missing = set(names)
    for name, flags_at in requires(content):
        if name in missing:
            missing.remove(name)
            struct.pack_into(">H", content, flags_at, number(content, flags_at) | STATIC_PHASE)
    if missing:
        raise ValueError("the module does not require {}".format(", ".join(sorted(missing))))
    return bytes(content)


def requires(content):
    """Yields each required module's name and the offset of its flags."""
    texts, modules, at = constants(content)
    at += 6  # access flags, this class, super class
    for _ in range(3):  # a module descriptor has no interfaces, fields and methods
        if number(content, at) != 0:
            raise ValueError("not a module descriptor")
        at += 2
    count, at = number(content, at), at + 2
    for _ in range(count):
        name, length = texts[number(content, at)], struct.unpack_from(">I", content, at + 2)[0]
        if name == "Module":
            table = at + 6 + 6  # after the attribute's head and the module's name, flags and version
            for index in range(number(content, table)):
                entry = table + 2 + 6 * index
                yield texts[modules[number(content, entry)]], entry + 2
        at += 6 + length


def constants(content):
    """Returns the texts and the modules' names among the constants, by index, and the offset of the constants' end."""
    texts, modules, at, index = {}, {}, 10, 1
    while index < number(content, 8):
        tag = content[at]
        if tag == UTF8:
            end = at + 3 + number(content, at + 1)
            texts[index] = content[at + 3:end].decode(errors="replace")
        else:
            end = at + 1 + CONSTANT_BYTES[tag]
        if tag == MODULE:
            modules[index] = number(content, at + 1)
        index += 2 if tag in TAKES_TWO_PLACES else 1
        at = end
    return texts, modules, at


def number(content, at):
    return struct.unpack_from(">H", content, at)[0]
