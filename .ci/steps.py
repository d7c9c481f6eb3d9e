#!/usr/bin/env python3
"""Runs the steps of .ci/run, and prints how long each took. The first step that fails ends the run.

Steps of the two lanes run side by side: one lane computes, and the steps of the other often wait, for nodes that
start or time-outs that end. Steps that measure other clients' answer times run alone. Meanwhile the tools of later
steps are fetched and compiled with what is left of the processors. A step whose tools are missing waits for them.
"""

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOGS = Path(".run/ci")

# A run that takes longer fails, so that its output names the steps that took the time.
MINUTES = 88

TOOLS = ["base", "lint", "func-e", "pages", "clients", "examples", "servers", "secured", "writers", "manifests",
         "istio", "registry", "cargo-fuzz", "valgrind", "k6", "explorer", "site", "browser"]

# The steps that most often find something come first, one after the other.
FIRST = ["make lint", "make test"]
# Measure how soon other clients are answered, and how soon they are served as before.
ALONE = ["make test-hostile", "make test-faults"]
COMPUTES = [
    "make demo",
    "make test-docs",
    "make test-parsers TIME=60 VERSIONS='opensearch-2 elasticsearch-8'",
    "make sim SEEDS=20000",
    "make fuzz TIME=10",
    "make bench-instructions",
    "make test-examples",
    "make test-image",
    "make test-k6",
    "make test-browser",
    "make release",
]
WAITS = [
    "make test-istio",
    "make test-security",
    "make test-outages",
    "make test-clients",
    "make test-matrix VERSIONS='opensearch-2 elasticsearch-8 elasticsearch-9'",
    "make test-writers QUICK=1 VERSIONS='elasticsearch-8 opensearch-2'",
]

# From <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """A step has failed."""


class Run:
    def __init__(self):
        self.began = time.monotonic()
        self.table = []
        self.lock = threading.Lock()
        self.running = {}
        self.failed = False

    def step(self, command):
        """Runs a command, and prints its output when it has ended."""
        self.execute(command, shlex.split(command))

    def execute(self, name, command):
        log = LOGS / "{}.log".format("-".join(name.split()[:2]))
        began = time.monotonic()
        with open(log, "wb") as output, self.lock:
            if self.failed:
                raise Failed
            process = subprocess.Popen([sys.executable, __file__, "--", *command], stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            self.running[process.pid] = name, log
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with self.lock:
            del self.running[process.pid]
            if self.failed:  # another step has failed, and ended this one
                raise Failed
            took = time.monotonic() - began
            self.table.append((name, took, usage.ru_utime + usage.ru_stime))
            self.show(name, log, "{:.0f} s".format(took))
            if process.returncode != 0:
                self.fail(name)
                raise Failed

    def show(self, name, log, took):
        print("--- {}: {}, {:.0f} s since the first step began\n{}".format(
            name, took, time.monotonic() - self.began, log.read_text(errors="replace")), flush=True)

    def fail(self, reason):
        self.failed = True
        self.end()
        print("FAILED: {}".format(reason), flush=True)

    def expire(self):
        """Ends the run, and prints what the steps have printed that still run."""
        with self.lock:
            if not self.failed:
                for name, log in self.running.values():
                    self.show(name, log, "not ended")
                self.fail("the steps take longer than {} minutes".format(MINUTES))

    def end(self):
        """Ends the steps that still run."""
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(pid, signal.SIGTERM)

    def lane(self, names):
        try:
            for name in names:
                self.step(name)
        except Failed:
            pass

    def lanes(self, *lanes):
        threads = [threading.Thread(target=self.lane, args=(names,)) for names in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise Failed

    def report(self):
        print("{:>8} {:>12}  step".format("seconds", "processor s"))
        for name, took, used in self.table:
            print("{:8.0f} {:12.0f}  {}".format(took, used, name))
        print("{:8.0f} {:12.0f}  in total".format(time.monotonic() - self.began,
                                                  sum(used for _, _, used in self.table)), flush=True)


def main():
    LOGS.mkdir(parents=True, exist_ok=True)
    run = Run()
    limit = threading.Timer(MINUTES * 60, run.expire)
    limit.start()
    fetching = threading.Thread(target=fetch, args=(run,))
    fetching.start()
    try:
        for name in FIRST + ALONE:
            run.step(name)
        run.lanes(COMPUTES, WAITS)
    except Failed:
        sys.exit(1)
    finally:
        limit.cancel()
        run.end()
        fetching.join()
        run.report()


def fetch(run):
    # The scheduler would give a new session its full share of the machine, however nice its processes are, so the whole
    # session is made nice.
    nice = "echo 19 2> /dev/null > /proc/self/autogroup; exec nice -n 19 \"$@\""
    try:
        run.execute("fetch the tools", ["sh", "-c", nice, "sh", sys.executable, "tests/tools/fetch.py", *TOOLS])
    except Failed:
        pass


def execute(command):
    """Runs a command, and waits for all processes that it leaves, so that their processor time is counted too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    status = subprocess.call(command)
    deadline = time.monotonic() + 10
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            if time.monotonic() > deadline:
                sys.exit("{} has left processes running".format(" ".join(command)))
            time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:
        sys.exit(execute(sys.argv[2:]))
    main()
