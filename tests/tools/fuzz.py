#!/usr/bin/env python3
"""Runs each fuzz target of tests/fuzz for some seconds, two at a time, and tells what they did.

    fuzz.py SECONDS [TARGET ...]

What a target finds on its way it keeps in .run/fuzz/TARGET, beside the corpus of the repository. An input that breaks
a property lands in .run/fuzz/found; `fuzz.py 0 TARGET` runs that target over its corpora once more, and nothing else.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional, Tuple

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "tests" / "fuzz"
WORK = ROOT / ".run" / "fuzz"
TOOL = ROOT / ".tools" / "cargo-fuzz"
VERSION = "0.13.2"
JOBS = 2
# A property takes milliseconds; the timeout is for a machine that is busy.
LIMITS = ["-timeout=20", "-rss_limit_mb=1024"]


class Result(NamedTuple):
    inputs: str
    bytes: str
    edges: str
    corpus: str
    memory: Optional[Tuple[int, int]]  # allocated and counted, of targets with an engine


def main():
    seconds, targets = sys.argv[1], sys.argv[2:] or sorted(path.stem for path in (FUZZ / "targets").glob("*.rs"))
    binaries = build()
    (WORK / "found").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda target: run(binaries / target, seconds), targets))
    print("{:12} {:>14} {:>18} {:>9} {:>9}".format("target", "inputs", "bytes", "edges", "corpus"))
    for target, result in zip(targets, results):
        row = "{:12} {:>14} {:>18} {:>9} {:>9}".format(target, *result[:4]) if result else "{:12} broken".format(target)
        print(row)
    for target, result in zip(targets, results):
        if result and result.memory:
            allocated, counted = result.memory
            print("{}: at worst {:,} bytes allocated for {:,} counted, of 1.5 times as many and 4 MiB".format(
                target, allocated, counted))
    if not all(results):
        sys.exit("make fuzz: a property was broken by an input in {}; what it said stands above. Once it is mended, "
                 "keep the input in tests/fuzz/corpus.".format(WORK / "found"))


def build():
    """The folder with the targets. They are instrumented by the stable compiler, without a sanitizer: the filter has no
    unsafe code."""
    if not any(shutil.which(compiler) for compiler in [os.environ.get("CXX", "c++"), "clang++", "g++"]):
        sys.exit("make fuzz: libFuzzer has to be compiled. Install a C++ compiler, for example:\n"
                 "  Debian, Ubuntu   apt install g++\n"
                 "  Fedora, RHEL     dnf install gcc-c++")
    cargo("install", "cargo-fuzz", "--version", VERSION, "--locked", "--quiet", "--root", TOOL)
    path = os.environ["PATH"] + os.pathsep + str(TOOL / "bin")
    cargo("fuzz", "build", "--fuzz-dir", FUZZ, "--sanitizer", "none", "--features", "libfuzzer", PATH=path)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    host = re.search("host: (.*)", subprocess.check_output(["rustc", "-vV"], text=True)).group(1)
    return target / host / "release"


def cargo(*arguments, **environment):
    if subprocess.run(["cargo", *map(str, arguments)], cwd=ROOT, env=dict(os.environ, **environment)).returncode != 0:
        sys.exit("make fuzz: cargo {} failed".format(arguments[0]))


def run(binary, seconds):
    """What the target tells of itself at its end; None if a property was broken."""
    target = binary.name
    work = WORK / target
    work.mkdir(parents=True, exist_ok=True)
    command = [binary, work, FUZZ / "corpus" / target, "-dict={}".format(FUZZ / "dictionary"), *LIMITS,
               "-artifact_prefix={}/{}-".format(WORK / "found", target)]
    command.append("-runs=0" if seconds == "0" else "-max_total_time={}".format(seconds))
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = told.stdout.decode(errors="replace")
    tally = re.search(r"tally: (\d+) inputs of (\d+) bytes", text)
    if told.returncode != 0 or not tally:
        sys.stderr.write("\n".join(text.splitlines()[-60:]) + "\n")
        return None
    edges, corpus = re.findall(r"cov: (\d+) .*corp: (\S+)", text)[-1]
    memory = re.search(r"memory: (\d+) bytes allocated, (\d+) counted", text)
    return Result(tally.group(1), tally.group(2), edges, corpus, memory and tuple(map(int, memory.groups())))


if __name__ == "__main__":
    main()
