#!/usr/bin/env python3
"""Makes the files of a release, and publishes them. The same commit and the same rustc make the same files.

    release.py files    copies what `make image explorer` built to dist/release, with SBOMs and checksums
    release.py image    pushes the image of dist/release to IMAGE
    release.py page     creates the release of TAG on GitHub, with the files of dist/release

TAG, if set, must be the tag of this version. COMPARE, if set, is a file with checksums that the files must have.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
RELEASE = DIST / "release"
TOOLS = ROOT / ".tools"
MODULE = "bulk_reshuffle.wasm"
IMAGE = "bulk-reshuffle-image.tar"
CHECKSUMS = "SHA256SUMS"
NPM = [TOOLS / "node" / "bin" / "node", TOOLS / "node" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


class Failure(Exception):
    """An error whose text says what to do next."""


def main(part):
    {"files": make_files, "image": push_image, "page": create_page}[part]()


# --- the files

def make_files():
    packages = metadata()
    version = packages["bulk-reshuffle-filter"]["version"]
    check_tag(version)
    RELEASE.mkdir(parents=True, exist_ok=True)
    for old in RELEASE.iterdir():
        old.unlink()
    module = (DIST / MODULE).read_bytes()
    (RELEASE / MODULE).write_bytes(module)
    archive(DIST / "image", RELEASE / IMAGE)
    explorer = pack(DIST / "explorer" / "package", version)
    write_sbom("bulk_reshuffle.cdx.json", packages, "bulk-reshuffle-filter", "wasm32-wasip1",
               {"type": "application", "name": MODULE, "version": version, "hashes": hashes(sha256(module))})
    write_sbom("bulk-reshuffle-explorer.cdx.json", packages, "bulk-reshuffle-explorer", "wasm32-unknown-unknown",
               {"type": "library", "name": "bulk-reshuffle-explorer", "version": version,
                "purl": "pkg:npm/bulk-reshuffle-explorer@" + version, "hashes": hashes(sha256(explorer.read_bytes()))})
    sums = {path.name: sha256(path.read_bytes()) for path in sorted(RELEASE.iterdir())}
    (RELEASE / CHECKSUMS).write_text("".join("{}  {}\n".format(found, name) for name, found in sums.items()))
    print((RELEASE / CHECKSUMS).read_text(), end="")
    if os.environ.get("COMPARE"):
        compare(sums, Path(os.environ["COMPARE"]))


def check_tag(version):
    """Fails if TAG is set and is not the tag of this version, or if the changelog does not have its date."""
    tag = os.environ.get("TAG")
    if tag and tag != "v" + version:
        raise Failure("the tag {} is not v{}, the version in Cargo.toml. Change one of them.".format(tag, version))
    if tag and "not released" in changelog(version)[0]:
        raise Failure("CHANGELOG.md says that {} is not released yet. Replace that by the date.".format(version))


def changelog(version):
    """Returns the heading and the text of a version."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.match(re.escape(version) + r"\b(?![.-])", heading):
            return heading, text.strip()
    raise Failure("CHANGELOG.md has no section for {}. Add one.".format(version))


def archive(folder, to):
    """Archives a folder without dates and owners, in a fixed order."""
    with tarfile.open(to, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size, entry.mode = path.stat().st_size, 0o644
            with open(path, "rb") as file:
                tar.addfile(entry, file)


def pack(folder, version):
    """Packs the explorer's package as npm does: with a fixed date, and without owners."""
    with tempfile.TemporaryDirectory() as cache:
        output(NPM + ["pack", folder, "--pack-destination", RELEASE, "--cache", cache, "--silent", "--offline"])
    packed = RELEASE / "bulk-reshuffle-explorer-{}.tgz".format(version)
    if not packed.exists():
        raise Failure("examples/explorer/package/package.json has another version than Cargo.toml, which has {}. "
                      "Change one of them.".format(version))
    check_publishable(packed, json.loads((folder / "package.json").read_text())["files"])
    return packed


def check_publishable(packed, files):
    """Fails if npm would not publish the package, or without a file that it names. npm leaves out missing files."""
    with tempfile.TemporaryDirectory() as cache:
        told = json.loads(output(NPM + ["publish", packed, "--dry-run", "--json", "--cache", cache, "--silent",
                                        "--offline"]))
    missing = set(files) - {file["path"] for file in told["files"]}
    if missing:
        raise Failure("the explorer's package lacks {}, which `files` in its package.json names. Run `make explorer`, or "
                      "remove the names.".format(", ".join(sorted(missing))))


def compare(sums, other):
    expected = dict(reversed(line.split()) for line in other.read_text().splitlines())
    names = sorted(name for name in sums.keys() | expected.keys() if sums.get(name) != expected.get(name))
    if names:
        raise Failure("these files differ from those of {}: {}. Compare the commits, the SOURCE, and the versions of "
                      "rustc, which the SBOMs state.".format(other, ", ".join(names)))
    print("all files are those of {}".format(other))


# --- bills of materials

def metadata():
    """Returns cargo's description of each package: by name and version, and those of the workspace by name too."""
    packages = json.loads(output(["cargo", "metadata", "--format-version", "1", "--locked"]))["packages"]
    found = {(package["name"], package["version"]): package for package in packages}
    found.update((package["name"], package) for package in packages if package["source"] is None)
    return found


def write_sbom(name, packages, root, target, component):
    """Writes the bill of materials of a package for a target, in CycloneDX's format: without a date and a serial
    number, which would differ in each build."""
    graph = dependencies(root, target)
    first = next(iter(graph))
    component["bom-ref"] = first
    component["licenses"] = licenses(packages[root])
    checksums = locked_checksums()
    parts = [part(packages[key], checksums.get(key)) for key in map(package_of, graph) if key != package_of(first)]
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": component,
                     "properties": [{"name": "target", "value": target},
                                    {"name": "rustc", "value": output(["rustc", "--version"]).strip()}]},
        "components": parts,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needs)} for ref, needs in graph.items()],
    }
    (RELEASE / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def dependencies(root, target):
    """Returns each package that a package is compiled with for a target, and what it needs itself; the root first."""
    lines = output(["cargo", "tree", "--locked", "--package", root, "--target", target, "--edges", "normal,build",
                    "--prefix", "depth", "--charset", "ascii"]).splitlines()
    graph, path = {}, []
    for depth, name, version in (re.match(r"(\d+)(\S+) v(\S+)", line).groups() for line in lines):
        del path[int(depth):]
        ref = purl(name, version)
        graph.setdefault(ref, set())
        if path:
            graph[path[-1]].add(ref)
        path.append(ref)
    (first, *others) = graph
    return {ref: graph[ref] for ref in [first] + sorted(others)}


def purl(name, version):
    return "pkg:cargo/{}@{}".format(name, version)


def package_of(ref):
    return tuple(ref[len("pkg:cargo/"):].split("@"))


def part(package, checksum):
    ref = purl(package["name"], package["version"])
    found = {"type": "library", "bom-ref": ref, "name": package["name"], "version": package["version"], "purl": ref,
             "licenses": licenses(package)}
    return dict(found, hashes=hashes(checksum)) if checksum else found


def licenses(package):
    # Old crates separate alternatives with a slash.
    return [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]


def hashes(found):
    return [{"alg": "SHA-256", "content": found}]


def locked_checksums():
    """Returns the checksum of each crate in Cargo.lock."""
    pattern = r'^name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"$'
    found = re.findall(pattern, (ROOT / "Cargo.lock").read_text(), re.M)
    return {(name, version): checksum for name, version, checksum in found}


# --- publishing

def push_image():
    """Pushes the image, and tells a workflow its name and its digest."""
    image = required("IMAGE").lower()  # registries know no capital letters
    version = json.loads((RELEASE / "bulk_reshuffle.cdx.json").read_text())["metadata"]["component"]["version"]
    crane = TOOLS / "crane" / "crane"
    if os.environ.get("REGISTRY_PASSWORD"):
        output([crane, "auth", "login", image.split("/")[0], "--username", required("REGISTRY_USER"),
                "--password-stdin"], input=os.environ["REGISTRY_PASSWORD"])
    with tempfile.TemporaryDirectory() as layout:
        with tarfile.open(RELEASE / IMAGE) as tar:
            tar.extractall(layout)
        pushed = output([crane, "push", layout, "{}:{}".format(image, version)]).strip()
    print(pushed)
    if os.environ.get("GITHUB_OUTPUT"):
        with open(os.environ["GITHUB_OUTPUT"], "a") as told:
            told.write("name={}\ndigest={}\n".format(image, pushed.split("@")[1]))


def create_page():
    """Creates the release's page, whose text is the version's section of the changelog."""
    tag, source = required("TAG"), required("SOURCE")
    _, text = changelog(tag[1:])
    # Links of the changelog are relative to the repository.
    text = re.sub(r"\]\((?!https?://|#)", "]({}/blob/{}/".format(source, tag), text)
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes-file", "-"]
    command += ["--prerelease"] if "-" in tag else []
    print(output(command + sorted(RELEASE.iterdir()), input=text), end="")


def required(name):
    value = os.environ.get(name)
    if not value:
        raise Failure("{} is not set".format(name))
    return value


def output(command, **options):
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    except OSError as error:  # no such program
        raise Failure(str(error))
    if done.returncode != 0:
        raise Failure("`{}` failed: {}".format(" ".join(command), done.stderr.strip()))
    return done.stdout


def sha256(content):
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failure as failure:
        sys.exit("make release: {}".format(failure))
