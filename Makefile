# A fresh machine needs make, rustup and Python 3 with pip; `make tools` fetches everything else into .tools/.

COMPILED := $(or $(CARGO_TARGET_DIR),target)
WASM     := dist/bulk_reshuffle.wasm
SEEDS     = 20000
TIME      = 60
DEMO      = cargo run --release --package bulk-reshuffle-demo --
# With the features of all members at once, so that no library is compiled again for another test.
TEST      = cargo test --workspace
# Tests that need more than `make tools` fetches, or minutes. Each has a command of its own.
ON_DEMAND = clients delivery envoy_gateway example_clients examples faults full hostile large_state manifests matrix \
            observability package pages registry replicas reproducible scripts walk wrong_answers

# Else the messages of panics would name the folder of whoever compiles, and the same source make different modules.
CARGO_HOME ?= $(HOME)/.cargo
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS = --remap-path-prefix=$(CARGO_HOME)=/cargo

# The filter says of which commit it is.
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null)
export BULK_RESHUFFLE_COMMIT = $(REVISION)

.DEFAULT_GOAL := help
.PHONY: demo up down build image explorer test test-docs test-faults test-hostile test-clients test-example-clients test-shippers-full test-matrix test-examples test-explorer test-browser test-observability test-istio test-istio-full test-envoy-gateway test-image test-k6 sim differential fuzz k6 bench bench-settings bench-core bench-vm bench-instructions bench-state bench-growth help tools lint forced-trap clean

##@ Use it

demo: tools build ## show the filter on a real three-node cluster, with figures and checks
	@$(DEMO) demo

up: tools build ## start the same cluster and Envoy, and leave them running: 127.0.0.1:9200
	@$(DEMO) up

down: ## end what `make up` has started
	@$(DEMO) down

build: ## compile the filter to dist/bulk_reshuffle.wasm
	@test -d "$$(rustc --print target-libdir --target wasm32-wasip1)" || rustup target add wasm32-wasip1
	@cargo build --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-filter
	@cargo run --quiet --package bulk-reshuffle-module -- $(COMPILED)/wasm32-wasip1/wasm/bulk_reshuffle_filter.wasm $(WASM)

# SOURCE is the URL of the repository, if the image is to name it; ARCHITECTURE that of the nodes (amd64), if their pods
# get it as a volume.
image: ARCHITECTURE = amd64
image: build ## make the OCI image of the filter in dist/image, and print its digest
## SOURCE=https://...  the URL of the repository, which the image is to name
## ARCHITECTURE=amd64  that of the nodes whose pods get the image as a volume
	@cargo run --quiet --package bulk-reshuffle-image -- $(WASM) dist/image \
		--revision "$(REVISION)" --source "$(SOURCE)" --architecture "$(ARCHITECTURE)"

# wasm-pack finds what it needs, and downloads nothing.
explorer: ## build the explorer, a page and a package for Node, in dist/explorer
	@python3 tests/tools/fetch.py explorer
	@test -d "$$(rustc --print target-libdir --target wasm32-unknown-unknown)" || rustup target add wasm32-unknown-unknown
	@PATH="$(CURDIR)/.tools/wasm-bindgen-cli/bin:$$PATH" .tools/wasm-pack/bin/wasm-pack --quiet build examples/explorer \
		--target web --profile wasm --mode no-install --no-pack --out-dir $(CURDIR)/dist/explorer/package --out-name core
	@cp examples/explorer/page/* dist/explorer/
	@cp examples/explorer/package/* examples/explorer/README.md LICENSE dist/explorer/package/
	@rm -f dist/explorer/package/.gitignore dist/explorer/package/core.d.ts dist/explorer/package/core_bg.wasm.d.ts
	@echo "To look at it: python3 examples/explorer/serve.py"

##@ Test it

test: tools forced-trap ## run the tests, before the same real parts as in the demo
	@python3 tests/tools/fetch.py func-e
	@$(TEST)

test-docs: tools build ## run the commands of all pages, but for those of this list
	@cargo build --quiet --release --package bulk-reshuffle-demo
	@$(TEST) --test walk -- --nocapture

test-faults: tools build ## kill, hang, cut, starve, replace the real parts under load; count the losses
	@$(TEST) --test faults -- --test-threads=1 --nocapture

test-hostile: tools build ## send what hostile clients send; show in a table what it costs others
	@$(TEST) --test hostile -- --test-threads=1 --nocapture

# One cluster at a time: each of them takes memory and processors.
test-clients: tools build ## real clients, with Elasticsearch 7.10 and 8 and OpenSearch 2
	@python3 tests/tools/fetch.py clients
	@$(TEST) --test clients -- opensearch_2
	@$(TEST) --test clients -- elasticsearch_7_10
	@$(TEST) --test clients -- elasticsearch_8

test-example-clients: tools build ## the examples of clients and shippers, as their pages say
	@python3 tests/tools/fetch.py examples
	@$(TEST) --test example_clients -- clients::
	@$(TEST) --test example_clients -- --skip clients::

# Filebeat is compiled first, which takes about three minutes; the others are programs that you have.
test-shippers-full: tools build ## the same with Filebeat, and with programs that you name
## FLUENT_BIT, LOGSTASH, VECTOR  paths of the programs
	@python3 tests/tools/fetch.py elasticsearch-7.17 filebeat
	@FLUENT_BIT="$(FLUENT_BIT)" LOGSTASH="$(LOGSTASH)" VECTOR="$(VECTOR)" \
		$(TEST) --test example_clients -- --ignored --nocapture --test-threads=1

test-matrix: tools build ## the routing of every kind of index, compared with every release
## VERSIONS="opensearch-2 ..."  only with these
	@python3 tests/tools/fetch.py servers
	@VERSIONS="$(VERSIONS)" $(TEST) --test matrix -- --nocapture

test-examples: tools build ## check the examples for Kubernetes, Envoy Gateway and Docker Compose
	@python3 tests/tools/fetch.py manifests
	@$(TEST) --test examples

test-explorer: explorer ## test the explorer's package in Node, as npm packs and installs it
	@$(TEST) --test package -- --nocapture

test-browser: tools build explorer ## open the web pages in a real Chromium; pictures go to .run/browser
	@python3 tests/tools/fetch.py browser
	@$(TEST) --test pages -- --nocapture

test-observability: tools forced-trap ## have a real Prometheus watch Envoys, for dashboard and alerts
	@python3 tests/tools/fetch.py dashboards
	@$(TEST) --test observability -- --nocapture

test-istio: tools forced-trap ## have istiod deliver the manifests to Envoy, and send traffic through them
## ROWS=...  only the rows with this text
	@python3 tests/tools/fetch.py istio
	@$(TEST) --test manifests --test replicas
	@ROWS="$(ROWS)" $(TEST) --test delivery -- --nocapture

# What a user's cluster does besides: kubectl and the API server, which look at what is applied; istiod's CA; and Istio's
# agent, which fetches the module. Compiling them takes about ten minutes the first time, on two processors.
test-istio-full: tools image ## the same with kubectl, the API server, istiod and Istio's agent
## ROWS=...  only the rows with this text
	@python3 tests/tools/fetch.py istio-full
	@ROWS="$(ROWS)" $(TEST) --test full -- --nocapture

test-envoy-gateway: tools image ## have Envoy Gateway configure Envoy by its example, and send traffic
	@python3 tests/tools/fetch.py gateway
	@$(TEST) --test envoy_gateway -- --nocapture

test-image: tools build ## push the image to a registry, pull it as Istio does, and make it twice
	@python3 tests/tools/fetch.py registry
	@$(TEST) --test registry --test reproducible -- --nocapture

test-k6: tools build ## run every k6 script with small numbers; none may take a wrong answer
	@python3 tests/tools/fetch.py k6
	@$(TEST) --test wrong_answers
	@$(TEST) --test scripts -- --nocapture

sim: ## run the engine through random days in virtual time
## SEEDS=20000  how many
## SEED=4145  one of them again
	@cargo build --quiet --workspace --bin bulk-reshuffle-simulator
	@$(COMPILED)/debug/bulk-reshuffle-simulator $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

differential: SEEDS = 100
differential: tools build ## compare the answers to random requests with and without the filter
## SEEDS=100  how many
## SEED=7  one of them again
	@$(if $(SEED),DIFFERENTIAL_SEED=$(SEED),DIFFERENTIAL_SEEDS=$(SEEDS)) \
		$(TEST) --test differential -- --nocapture

fuzz: ## look for inputs that break a property
## TIME=60  seconds for each target
	@python3 tests/tools/fuzz.py $(TIME)

##@ Measure it

k6: tools build ## send load to a cluster of its own, or to TARGET; see k6/README.md
## SCRIPT=small  bulk-size, concurrency, gateway, trips, small or mixed
## TARGET=http://...  where to send it instead; the scripts' own variables work too
	@python3 tests/tools/fetch.py k6
	@cargo run --quiet --package bulk-reshuffle-k6 -- "$(SCRIPT)" "$(TARGET)"

# Alone on the machine. What can be set is told by `cargo run --package bulk-reshuffle-bench -- --help`.
bench: tools build ## the filter, plain Envoy and direct writes, in pairs
## WORKLOADS=1x256,10x64,...  documents in a request x clients
## TARGETS=direct,plain,filter  the ways, in the order of each round
## ROUNDS=5  how often each way is measured
## SECONDS=5  for how long each time
## IDS=given  or missing: documents without an id
## SETTINGS={}  JSON for the filter, on top of the shipped configuration
## WARMUP=200000  documents that do not count
## OUT=k6/results/...  where the report goes
## ENVOY_WORKERS=1  threads of each Envoy
## BASE_WASM=...  another build of the filter, for the target `base`
	@cargo run --release --package bulk-reshuffle-bench

bench-settings: tools build ## each setting's other values in pairs with the shipped ones
## WORKLOADS=... ROUNDS=5 SECONDS=5  as above
	@cargo run --release --package bulk-reshuffle-bench -- --sweep

bench-core: ## what each part of core takes of a request
	@cargo bench --quiet --package bulk-reshuffle --bench core

bench-vm: tools ## the same natively and inside Envoy's V8, in one table
	@test -d "$$(rustc --print target-libdir --target wasm32-wasip1)" || rustup target add wasm32-wasip1
	@cargo build --quiet --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-routines-vm
	@ROUTINES_WASM=$(abspath $(COMPILED))/wasm32-wasip1/wasm/bulk_reshuffle_routines_vm.wasm \
		cargo bench --quiet --package bulk-reshuffle-routines --bench side_by_side

bench-instructions: ## count the instructions of the same, against its limits; needs valgrind
## RENEW=1  make these counts the limits
	@RENEW=$(RENEW) cargo bench --quiet --package bulk-reshuffle --bench instructions

bench-state: tools build ## what a cluster state of 10,000 indices costs, natively and in Envoy
	@cargo bench --quiet --package bulk-reshuffle-large-state --bench routing
	@cargo test --package bulk-reshuffle-large-state --test memory -- --nocapture
	@$(TEST) --test large_state -- --nocapture

bench-growth: tools build ## what a document costs with many nodes, shards and waiting requests
## ROUNDS=5  how often each case is measured
## SCALE=20  times the 1,000 requests of one document, or the 10 of 1,000
	@cargo run --quiet --release --package bulk-reshuffle-growth

##@ Work on it

help: ## this list
	@awk -f tests/tools/help.awk $(MAKEFILE_LIST)

tools: ## fetch the pinned Envoy, OpenSearch and Java into .tools/
	@python3 tests/tools/fetch.py

lint: ## check formatting, lints, and that the imports of core run one way
	@cargo fmt --all --check
	@python3 tests/tools/imports.py
	@cargo clippy --workspace --all-targets -- -D warnings
	@cargo clippy --workspace $(addprefix --test ,$(ON_DEMAND)) -- -D warnings

# The same with a way to kill its VM, for a test of what becomes of everybody else then. In a folder of its own, so
# that it can never be taken for the filter itself; quick to compile rather than quick.
forced-trap: build ## the filter with a way to kill its VM, for the tests of that
	@cargo build --quiet --profile wasm --target wasm32-wasip1 --package bulk-reshuffle-filter \
		--features forced-trap --target-dir $(COMPILED)/forced-trap \
		--config profile.wasm.lto=false --config profile.wasm.codegen-units=16 --config profile.wasm.opt-level=1

clean: ## remove what was compiled; .tools/ stays
	@cargo clean
	@rm -rf dist .run/demo
