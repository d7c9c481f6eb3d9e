# A new machine needs make, rustup and Python 3 with pip; `make tools` fetches everything else into .tools/.

COMPILED := $(or $(CARGO_TARGET_DIR),target)
WASM     := dist/bulk_reshuffle.wasm
SEEDS     = 20000
TIME      = 60
DEMO      = $(COMPILED)/debug/bulk-reshuffle-demo
# The text that Vale checks. Programs write the reports of benches.
PROSE     = '*.md' '*.rs' '*.py' '*.go' '*.yaml' '*.yml' '*.js' ':!.vale' ':!k6/results' ':!tests/fuzz/corpus'
# Both use one profile and the features of all members at once, so that cargo compiles each library only once.
PROGRAM   = cargo build --quiet --workspace --bin
TEST      = cargo test --workspace
# The tools arrive, and the linker of a module uses one processor for a minute, while cargo compiles something else.
BESIDE    = & other=$$!; $(MAKE) --no-print-directory
BOTH      = ; made=$$?; wait $$other && exit $$made
# Tests that take minutes, or need more than `make tools` fetches. Each has its own target.
ON_DEMAND = examples faults hostile image istio k6 observability on_demand outages programs releases secured

# Without this, panic messages would contain the home folder of the build, and the same source would make different
# modules.
CARGO_HOME ?= $(HOME)/.cargo
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS = --remap-path-prefix=$(CARGO_HOME)=/cargo
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS = --remap-path-prefix=$(CARGO_HOME)=/cargo

# Where rustup must not install the compiler of rust-toolchain.toml, the default one is used.
ifeq ($(RUSTUP_AUTO_INSTALL),0)
export RUSTUP_TOOLCHAIN ?= stable
endif

# The filter reports the commit that it was built from.
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null)
export BULK_RESHUFFLE_COMMIT = $(REVISION)

.DEFAULT_GOAL := help
.PHONY: demo up down build image explorer site release check test test-docs test-faults test-hostile test-outages test-security test-clients test-writers test-matrix test-parsers test-examples test-browser test-observability test-istio test-kubernetes test-image test-k6 sim differential fuzz k6 bench bench-core bench-instructions bench-size help lint
# Parts of other targets, and of the release workflow.
.PHONY: tools forced-trap inspect publish-image publish-page

##@ To try the filter

help:
	@awk -v only="$(FOR)" -f tests/tools/help.awk $(MAKEFILE_LIST)

demo: ## run the filter on a real three-node cluster, and print figures and checks
	@$(PROGRAM) bulk-reshuffle-demo $(BESIDE) tools build $(BOTH)
	@$(DEMO) demo

up: ## start the same cluster and Envoy, and keep them running: 127.0.0.1:9200
## CLUSTER=elasticsearch-9  or -8, -7.17, -7.10; opensearch-3, -2 or -1
	@$(PROGRAM) bulk-reshuffle-demo $(BESIDE) tools build $(BOTH)
	@$(if $(CLUSTER),python3 tests/tools/fetch.py $(CLUSTER))
	@$(DEMO) up $(CLUSTER)

down: ## stop the cluster and Envoy of `make up`
	@$(PROGRAM) bulk-reshuffle-demo
	@$(DEMO) down

build: ## compile the filter to dist/bulk_reshuffle.wasm
	@test -d "$$(rustc --print target-libdir --target wasm32-wasip1)" || rustup target add wasm32-wasip1
	@cargo build --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-filter
	@cargo build --quiet --package bulk-reshuffle-package --no-default-features --bin bulk-reshuffle-module
	@$(COMPILED)/debug/bulk-reshuffle-module $(COMPILED)/wasm32-wasip1/wasm/bulk_reshuffle_filter.wasm $(WASM)

# Prints what the module says about itself, or the one at MODULE.
inspect: $(if $(MODULE),,build)
	@cargo build --quiet --package bulk-reshuffle-package --no-default-features --bin bulk-reshuffle-module
	@$(COMPILED)/debug/bulk-reshuffle-module $(or $(MODULE),$(WASM))

image: ARCHITECTURE = amd64
image: build ## build the OCI image of the filter in dist/image, and print its digest
## SOURCE=https://...  URL of the repository, for the image's labels
## ARCHITECTURE=amd64  architecture of the nodes whose pods mount the image as a volume
	@$(PROGRAM) bulk-reshuffle-image
	@$(COMPILED)/debug/bulk-reshuffle-image $(WASM) dist/image \
		--revision "$(REVISION)" --source "$(SOURCE)" --architecture "$(ARCHITECTURE)"

# wasm-pack finds its tools in .tools/, and downloads nothing.
explorer: ## build the explorer, a page and a package for Node, in dist/explorer
	@python3 tests/tools/fetch.py explorer
	@test -d "$$(rustc --print target-libdir --target wasm32-unknown-unknown)" || rustup target add wasm32-unknown-unknown
	@PATH="$(CURDIR)/.tools/wasm-bindgen-cli/bin:$$PATH" .tools/wasm-pack/bin/wasm-pack --quiet build examples/explorer \
		--target web --profile wasm --mode no-install --no-pack --out-dir $(CURDIR)/dist/explorer/package --out-name core
	@cp examples/explorer/page/* dist/explorer/
	@cp examples/explorer/package/* examples/explorer/README.md LICENSE dist/explorer/package/
	@rm -f dist/explorer/package/.gitignore dist/explorer/package/core.d.ts dist/explorer/package/core_bg.wasm.d.ts
	@echo "To open it: python3 examples/explorer/serve.py"

site: explorer ## build a site of all pages, with the explorer, in dist/site
	@python3 tests/tools/fetch.py site
	@python3 tests/docs/site/site.py

release: image explorer ## build all files of a release, with SBOMs and checksums
## SOURCE=https://...  URL of the repository, for the image's labels
## TAG=v0.2.0  fail if this is not the tag of the version and the changelog
## COMPARE=SHA256SUMS  fail if the files are not those of another build
	@TAG="$(TAG)" COMPARE="$(COMPARE)" python3 filter/package/release.py files

# The release workflow pushes the image to IMAGE. Without REGISTRY_PASSWORD, crane's own configuration has the password.
publish-image:
	@python3 tests/tools/fetch.py crane
	@IMAGE="$(IMAGE)" python3 filter/package/release.py image

publish-page:
	@TAG="$(TAG)" SOURCE="$(SOURCE)" python3 filter/package/release.py page

##@ For every change

check: ## format core, lint it and run its unit tests, in half a minute
	@cargo fmt --all --check
	@python3 tests/tools/imports.py
	@cargo clippy --quiet --package bulk-reshuffle --all-targets -- -D warnings
	@cargo test --quiet --package bulk-reshuffle --lib

lint: ## check style, lints, imports, crates, workflows, English
## ADVISORIES=1  also search the list of known vulnerabilities, online
	@cargo fmt --all --check
	@python3 tests/tools/imports.py
	@python3 tests/tools/fetch.py lint
	@.tools/vale/vale --output line $$(git ls-files $(PROSE))
	@.tools/actionlint/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml
	@.tools/zizmor/zizmor --offline --quiet .github
	@.tools/cargo-deny/bin/cargo-deny --locked --log-level error check $(if $(ADVISORIES),advisories) bans licenses sources
	@cargo clippy --workspace --all-targets -- -D warnings
	@cargo clippy --workspace $(addprefix --test ,$(ON_DEMAND)) -- -D warnings

test: ## run the tests, with the same real Envoy and cluster as the demo
## ENVOY=envoy-1.37  the oldest Envoy that works
	@$(TEST) --no-run --quiet $(BESIDE) tools forced-trap TOOLS="base func-e pages $(ENVOY)" $(BOTH)
	@$(TEST)

##@ For a change of one part: CONTRIBUTING.md says which

test-docs: tools build ## run the commands of all pages, except those of this list
	@$(PROGRAM) bulk-reshuffle-demo
	@$(TEST) --test on_demand -- walk:: --nocapture

# The tests wait for their turns themselves.
test-faults: tools build ## kill, hang, cut, starve or replace real parts under load; count the losses
	@$(TEST) --test faults -- --test-threads=32 --nocapture

test-hostile: tools build ## send hostile requests, and print a table of their cost to other clients
	@$(TEST) --test hostile -- --test-threads=1 --nocapture

test-outages: tools build ## break or replace nodes and Envoys; print what writers notice
	@$(TEST) --test outages -- --nocapture --test-threads=1

test-security: tools build ## run the filter in front of nodes with a security plug-in, users and roles
	@python3 tests/tools/fetch.py secured
	@$(TEST) --test secured -- --nocapture

# Runs one cluster after the other, because each needs memory and processors.
test-clients: tools build ## run real clients, and the examples of clients and shippers
## FULL=1  also Filebeat, compiled first in about three minutes, and the shippers that you name:
## FLUENT_BIT, LOGSTASH, VECTOR  paths of the programs
	@python3 tests/tools/fetch.py clients examples $(if $(FULL),elasticsearch-7.17 filebeat)
	@$(TEST) --test programs -- clients::opensearch_2
	@$(TEST) --test programs -- clients::elasticsearch_7_10
	@$(TEST) --test programs -- clients::elasticsearch_7_17
	@$(TEST) --test programs -- clients::elasticsearch_8
	@$(TEST) --test programs -- example_clients::
	@$(TEST) --test programs -- shippers::
	@$(if $(FULL),FLUENT_BIT="$(FLUENT_BIT)" LOGSTASH="$(LOGSTASH)" VECTOR="$(VECTOR)" \
		$(TEST) --test programs -- shippers:: --ignored --nocapture --test-threads=1)

test-writers: tools build ## run real writers with and without the filter; print their outcomes
## VERSIONS="opensearch-2 ..."  only these releases
## WRITERS="vector jaeger ..."  only the writers with one of these words
## QUICK=1  only the writers that are small and need no compiler
## RENEW=1  record the outcomes, from which the README's table is made
	@python3 tests/tools/fetch.py servers examples writers $(if $(QUICK),,writers-full)
	@VERSIONS="$(VERSIONS)" WRITERS="$(WRITERS)" QUICK="$(QUICK)" RENEW="$(RENEW)" \
		$(TEST) --test programs -- writers:: --nocapture

test-matrix: tools build ## compare kinds of indices, and single-document requests, with every release
## VERSIONS="opensearch-2 ..."  only these releases
	@python3 tests/tools/fetch.py servers
	@VERSIONS="$(VERSIONS)" $(TEST) --test releases -- matrix:: singles:: --nocapture --test-threads 1

test-parsers: TIME = 20
test-parsers: tools ## let the servers' own parsers judge what the filter reads from random bodies
## VERSIONS="opensearch-2 ..."  only these releases
## TIME=20  seconds
## SEED=1  other bodies
	@python3 tests/tools/fetch.py servers
	@VERSIONS="$(VERSIONS)" TIME="$(TIME)" SEED="$(SEED)" $(TEST) --test releases -- parsers:: --nocapture

test-examples: tools build ## check the examples for Kubernetes, Envoy Gateway and Docker Compose
	@python3 tests/tools/fetch.py manifests
	@$(TEST) --test examples

test-browser: tools build site ## open the web pages in a real Chromium, and the explorer's package in Node
	@python3 tests/tools/fetch.py browser
	@$(TEST) --test on_demand -- package:: --nocapture
	@$(TEST) --test on_demand -- browser:: --nocapture

test-observability: tools forced-trap ## test dashboard and alerts with a real Prometheus that scrapes Envoys
	@python3 tests/tools/fetch.py dashboards
	@$(TEST) --test observability -- --nocapture

test-istio: tools forced-trap ## deliver the manifests to Envoy by istiod, and send traffic through them
## ROWS=...  only the rows with this text
	@python3 tests/tools/fetch.py istio
	@$(TEST) --test istio -- istiod:: --skip istiod::delivery::
	@ROWS="$(ROWS)" $(TEST) --test istio -- istiod::delivery:: --nocapture

# Runs the manifests as a user's cluster does: kubectl and the API server validate them, istiod has its CA, and Istio's
# agent fetches the module. Envoy Gateway translates its own example. The first run compiles all of them, in about twenty
# minutes on two processors.
test-kubernetes: tools image ## run the same with the API server, istiod, Istio's agent and Envoy Gateway
## ROWS=...  only Istio's rows with this text
	@python3 tests/tools/fetch.py istio-full gateway
	@ROWS="$(ROWS)" $(TEST) --test istio -- kubernetes::istio:: --nocapture
	@$(TEST) --test istio -- kubernetes::envoy_gateway:: --nocapture

test-image: tools build ## push the image to a registry, pull it as Istio does, and build it twice
	@python3 tests/tools/fetch.py registry
	@$(TEST) --test image -- --nocapture --test-threads=1

test-k6: tools build ## run every k6 script with small numbers; none may accept a wrong answer
	@python3 tests/tools/fetch.py k6
	@$(TEST) --test k6 -- wrong_answers::
	@$(TEST) --test k6 -- --nocapture scripts::
	@$(TEST) --test k6 -- --nocapture replay::

sim: ## simulate the engine with random events in virtual time
## SEEDS=20000  number of runs
## SEED=4145  replay one of them
	@$(PROGRAM) bulk-reshuffle-simulator
	@$(COMPILED)/debug/bulk-reshuffle-simulator $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

differential: SEEDS = 100
differential: tools build ## compare the answers to random requests with and without the filter
## SEEDS=100  number of sequences
## SEED=7  replay one of them
## CLUSTER=elasticsearch-9  in front of another release
	@$(if $(CLUSTER),python3 tests/tools/fetch.py servers)
	@$(if $(CLUSTER),DISTRIBUTION=$(CLUSTER)) $(if $(SEED),DIFFERENTIAL_SEED=$(SEED),DIFFERENTIAL_SEEDS=$(SEEDS)) \
		$(TEST) --test real -- differential:: --nocapture

fuzz: ## search for inputs that break a property
## TIME=60  seconds for each target
	@python3 tests/tools/fetch.py cargo-fuzz
	@python3 tests/tools/fuzz.py $(TIME)

##@ To measure

k6: tools build ## send load to a new cluster, or to TARGET; see k6/README.md
## SCRIPT=small  bulk-size, concurrency, gateway, trips, rate, small, mixed or replay
## TARGET=http://...  address for the load; the scripts' own variables work too
	@python3 tests/tools/fetch.py k6
	@$(PROGRAM) bulk-reshuffle-k6
	@$(COMPILED)/debug/bulk-reshuffle-k6 "$(SCRIPT)" "$(TARGET)"

# Needs an otherwise idle machine. `cargo run --bin bulk-reshuffle-bench -- --help` lists the options.
bench: tools build ## compare the filter, plain Envoy and direct writes, in pairs
## WORKLOADS=1x256,1x200/s,...  documents in a request x clients, or x requests in a second
## TARGETS=direct,plain,filter  ways to the cluster, in the order of each round
## ROUNDS=5  measurements of each way
## SECONDS=5  length of each measurement
## DOCUMENTS=gateway  or trips: the script whose documents are sent
## IDS=given  or missing: documents without an id; or versioned: with external versions
## API=bulk  or document: each document in a request of its own
## SHARDS=6  shards of the index
## REPLICAS=0  replicas of each shard
## TRANSLOG=request  or async: nodes answer before operations are on the disk
## SEARCHES=20  searches in a second at the same time
## CALLERS=1  callers of the requests
## WRITE_QUEUE=10  operations on shards that a node's queue holds; refused requests are counted
## NODE_PROCESSORS=0  processors that the nodes have alone
## PIPELINE=none  or proven, unproven: the default pipeline of the index
## CLUSTER=opensearch-2  the release of the nodes
## SETTINGS={}  JSON for the filter, merged into the shipped configuration
## WARMUP=200000  documents written before the measurement
## OUT=k6/results/...  folder for the report
## ENVOY_WORKERS=1  threads of each Envoy
## BASE_WASM=...  another build of the filter, for the target `base`
## SWEEP=true  compare other values of each setting with the shipped ones instead
	@$(if $(CLUSTER),python3 tests/tools/fetch.py servers)
	@cargo run --release --package bulk-reshuffle-bench --bin bulk-reshuffle-bench

bench-core: tools ## measure each part of core's work for a request, natively and in Envoy's V8
	@test -d "$$(rustc --print target-libdir --target wasm32-wasip1)" || rustup target add wasm32-wasip1
	@cargo rustc --quiet --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-bench --no-default-features \
		--lib --crate-type cdylib
	@ROUTINES_WASM=$(abspath $(COMPILED))/wasm32-wasip1/wasm/bulk_reshuffle_bench.wasm \
		cargo bench --quiet --package bulk-reshuffle-bench --bench core

bench-instructions: ## count the instructions of the same with valgrind, and enforce limits
## RENEW=1  turn these counts into the limits
	@python3 tests/tools/fetch.py valgrind
	@RENEW=$(RENEW) cargo bench --quiet --package bulk-reshuffle-bench --no-default-features --bench instructions

bench-size: tools build ## measure what many indices, nodes, shards and waiting requests cost
## PART=state  only the state of many indices; or polls, or growth: a document
## ROUNDS=5  measurements of each case
## SCALE=20  times the 1,000 requests of one document, or the 10 of 1,000
	@$(TEST) --test limits -- --nocapture a_table_takes
	@cargo run --quiet --profile bench --package bulk-reshuffle-bench --bin bulk-reshuffle-size

# Fetches the pinned Envoy, OpenSearch and Java into .tools/.
tools:
	@python3 tests/tools/fetch.py $(TOOLS)

# Compiles the filter with a way to kill its VM, to test the effect on other requests.
forced-trap: build
	@cargo build --quiet --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-filter \
		--features forced-trap --example forced-trap
