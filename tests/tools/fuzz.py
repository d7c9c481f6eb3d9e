#!/usr/bin/env python3
"""Runs each fuzz target of tests/fuzz for some seconds, two in parallel, and prints the results.

    fuzz.py SECONDS [TARGET ...]

A target keeps new inputs in .run/fuzz/TARGET, in addition to the corpus of the repository. An input that breaks a
property goes to .run/fuzz/found. `fuzz.py 0 TARGET` only runs that target over its corpora again.
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
JOBS = 2
# A property takes milliseconds; the timeout allows for a busy machine.
LIMITS = ["-timeout=20", "-rss_limit_mb=1024"]


class Result(NamedTuple):
    inputs: str
    bytes: str
    edges: str
    corpus: str
    memory: Optional[Tuple[int, int]]  # allocated and counted bytes, for targets with an engine


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
            print("{}: at most {:,} bytes allocated for {:,} counted; the limit is 1.5 x the count + 4 MiB".format(
                target, allocated, counted))
    if not all(results):
        sys.exit("make fuzz: an input in {} breaks a property; see the output above. Fix the bug, then add the input "
                 "to tests/fuzz/corpus.".format(WORK / "found"))


def build():
    """Builds the targets and returns their folder. The stable compiler instruments them, without a sanitizer: the filter
    has no unsafe code."""
    if not any(shutil.which(compiler) for compiler in [os.environ.get("CXX", "c++"), "clang++", "g++"]):
        sys.exit("make fuzz: no C++ compiler found, which libFuzzer needs. Install one, for example:\n"
                 "  Debian, Ubuntu   apt install g++\n"
                 "  Fedora, RHEL     dnf install gcc-c++")
    path = os.environ["PATH"] + os.pathsep + str(TOOL / "bin")
    cargo("fuzz", "build", "--fuzz-dir", FUZZ, "--sanitizer", "none", "--features", "libfuzzer", PATH=path)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    host = re.search("host: (.*)", subprocess.check_output(["rustc", "-vV"], text=True)).group(1)
    return target / host / "release"


def cargo(*arguments, **environment):
    if subprocess.run(["cargo", *map(str, arguments)], cwd=ROOT, env=dict(os.environ, **environment)).returncode != 0:
        sys.exit("make fuzz: cargo {} failed".format(arguments[0]))


def run(binary, seconds):
    """Runs a target and returns its result; None if a property was broken."""
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
