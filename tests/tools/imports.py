#!/usr/bin/env python3
"""Checks that core has no import cycles, neither between files nor between folders, and that the methods of the engine
are in one file.

    imports.py [--graph]    also prints the graph: each file with the files that it imports from

A re-export counts as the file that defines it. A file may import from the `mod.rs` of a folder that it is in, because
it is a part of that module. Methods need no import, so those of the engine in several files could call each other in a
circle. Tests do not count.
"""

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

CORE = Path(__file__).resolve().parents[2] / "filter" / "core" / "src"
ENGINE = CORE / "engine" / "mod.rs"
METHODS = re.compile(r"^impl (?:[\w:<>]+ for )?(?:\w+::)*Engine\b", re.M)
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)


def main():
    imports = {path: imports_of(path) for path in sources()}
    if "--graph" in sys.argv:
        for path, others in imports.items():
            print(path.relative_to(CORE), "<-", ", ".join(sorted(str(other.relative_to(CORE)) for other in others)))
    problems = [circle("files", imports), engine()]
    folders = {}
    for path, others in imports.items():
        for folder, other in filter(None, (siblings(path, other) for other in others)):
            folders.setdefault(folder, set()).add(other)
    problems.append(circle("folders", folders))
    if any(problems):
        sys.exit("\n".join(filter(None, problems)))


def engine():
    """Returns the problem if a file other than `engine/mod.rs` has methods of the engine."""
    others = [path for path in sources() if path != ENGINE and METHODS.search(path.read_text())]
    names = ", ".join(str(path.relative_to(CORE)) for path in others)
    return f"methods of the engine outside of engine/mod.rs: {names}; lend the step what it may touch" if others else None


def sources():
    return [path for path in sorted(CORE.rglob("*.rs")) if "tests" not in path.relative_to(CORE).with_suffix("").parts]


def imports_of(path):
    """Returns the files that a file imports from."""
    text = path.read_text().split("\n#[cfg(test)]\nmod tests {")[0]
    here = module(path)
    found = set()
    for tree in USE.findall(text):
        for segments in flat(tree):
            other = file_of(absolute(segments, here, path))
            if other and other != path and not is_part_of(path, other):
                found.add(other)
    return found


def flat(tree):
    """Splits `a::{b, c::d}` into the paths a::b and a::c::d."""
    tree = re.sub(r"\s+", " ", tree).strip()
    if "{" not in tree:
        return [tree.split(" as ")[0].split("::")]
    head, rest = tree.split("{", 1)
    parts, depth, part = [], 0, ""
    for char in rest[:rest.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    prefix = head.strip(": ").split("::") if head.strip(": ") else []
    return [prefix + path for part in parts if part for path in flat(part)]


def module(path):
    """Returns the path of a file's module, from the crate's root."""
    parts = list(path.relative_to(CORE).with_suffix("").parts)
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def absolute(segments, here, path):
    """Returns the path from the crate's root; None if it leads to another crate."""
    if segments[0] == "crate":
        return segments[1:]
    if segments[0] == "self":
        return here + segments[1:]
    if segments[0] == "super":
        up = next((at for at, segment in enumerate(segments) if segment != "super"), len(segments))
        return here[:len(here) - up] + segments[up:]
    is_child = file_of_module(here + segments[:1]) is not None
    return here + segments if is_child else None


def file_of_module(parts):
    for path in (CORE.joinpath(*parts, "mod.rs"), CORE.joinpath(*parts).with_suffix(".rs") if parts else CORE / "lib.rs"):
        if path.is_file():
            return path
    return None


def file_of(parts):
    """Returns the file that defines the item at a path."""
    if parts is None:
        return None
    known = []
    for at in range(len(parts) + 1):
        if file_of_module(parts[:at]) is None:
            break
        known = parts[:at]
    path, item = file_of_module(known), parts[len(known):]
    if item:
        for tree in re.findall(r"^pub(?:\([^)]*\))? use ([^;]+);", path.read_text(), re.M):
            for segments in flat(tree):
                if segments[-1] == item[0]:
                    other = absolute(segments, known, path)
                    if other and other != parts:
                        return file_of(other)
    return path


def is_part_of(path, other):
    return (other.name == "mod.rs" and other.parent in path.parents) or other == CORE.joinpath(
        *path.relative_to(CORE).parts[:1]).with_suffix(".rs")


def siblings(path, other):
    """Returns the two folders at which the paths of two files differ; None if one of the files is directly there."""
    left, right = path.relative_to(CORE).parts, other.relative_to(CORE).parts
    at = next((at for at, (one, two) in enumerate(zip(left, right)) if one != two), None)
    if at is None or at >= len(left) - 1 or at >= len(right) - 1:
        return None
    return "/".join(left[:at + 1]), "/".join(right[:at + 1])


def circle(what, graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names = [str(name.relative_to(CORE)) if isinstance(name, Path) else name for name in error.args[1]]
        return "import cycle between {} of core, which must be broken: {}".format(what, " -> ".join(reversed(names)))
    return None


if __name__ == "__main__":
    main()
