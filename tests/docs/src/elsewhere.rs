use crate::block::Block;

/// A block of commands that cannot run on this machine as it is, and the test that covers it.
#[derive(Debug)]
pub struct Elsewhere {
    pub page: &'static str,
    /// The beginning of the block.
    pub begins: &'static str,
    /// The requirements of the commands.
    pub needs: &'static str,
    pub test: Test,
}

/// A test that covers commands: its file, its function, and the target of `make` that runs it.
#[derive(Debug, Clone, Copy)]
pub struct Test(pub &'static str, pub &'static str, pub &'static str);

impl Elsewhere {
    /// Reports whether this entry is about a block.
    pub fn is_of(&self, block: &Block) -> bool {
        let first = block.commands().into_iter().next();
        block.page == self.page && first.is_some_and(|command| command.text.starts_with(self.begins))
    }
}

const KUBERNETES: &str = "a Kubernetes cluster with Istio";
const REGISTRY: &str = "your own registry";
const OWN: &str = "a cluster and an Envoy of your own";
const NEXT: &str = "a version that is ready to be released";
const CLIENTS: &str = "clients of its language";

const IN_KUBERNETES: Test = Test(
    "tests/istio/tests/kubernetes/istio/mod.rs",
    "manifests_that_kubectl_applies_handle_traffic",
    "test-kubernetes",
);
const OTHER_ADDRESSES: Test = Test("tests/istio/tests/istiod/delivery/mistakes.rs", "other_addresses", "test-istio");
const TLS: Test = Test("tests/istio/tests/istiod/delivery/mistakes.rs", "tls", "test-istio");
const LATER_FAULTS: Test = Test("tests/istio/tests/kubernetes/istio/failures.rs", "later", "test-kubernetes");
const PUSHED: Test =
    Test("filter/package/tests/image/registry.rs", "istio_pulls_only_the_module_that_the_digest_names", "test-image");
const COMPOSED: Test =
    Test("tests/e2e/tests/examples.rs", "the_compose_file_is_valid_and_its_mounts_exist", "test-examples");
const CHARTED: Test = Test("tests/e2e/tests/examples.rs", "the_charts_values_reach_the_manifests", "test-examples");
const EXPLORED: Test =
    Test("tests/docs/tests/on_demand/browser.rs", "the_explorer_shows_the_engines_results", "test-browser");
const INSTALLED: Test = Test(
    "tests/docs/tests/on_demand/package.rs",
    "the_package_installs_and_returns_the_engines_results",
    "test-browser",
);
const SCRAPED: Test = Test(
    "tests/e2e/tests/observability/live.rs",
    "the_dashboard_and_the_alerts_work_with_real_envoys",
    "test-observability",
);
const FUNC_E: Test =
    Test("tests/e2e/tests/scripted/func_e.rs", "func_e_starts_the_shipped_configuration_with_the_pinned_envoy", "test");
const OWN_SPLITS: Test = Test(
    "tests/e2e/tests/scripted/own_cluster.rs",
    "the_first_pages_configuration_splits_and_the_commands_show_it",
    "test",
);
const OWN_SURVIVES: Test = Test(
    "tests/e2e/tests/scripted/own_cluster.rs",
    "the_first_pages_configuration_survives_a_node_that_is_down",
    "test",
);
const MATRIX: Test =
    Test("tests/e2e/tests/releases/matrix/mod.rs", "every_kind_is_routed_as_expected_on_every_version", "test-matrix");
const EXAMPLE_CLIENTS: Test = Test(
    "tests/e2e/tests/programs/example_clients.rs",
    "every_program_reports_failed_documents_and_retries_refused_ones",
    "test-clients",
);

const REPLAYED: Test =
    Test("k6/runner/tests/k6/replay.rs", "recorded_requests_are_compared_on_a_real_cluster", "test-k6");

const RELEASED: Test = Test(
    "tests/docs/tests/pages/versions.rs",
    "the_commands_of_a_release_change_every_place_that_names_the_version",
    "test",
);
const RECORDED: Test = Test(
    "tests/docs/tests/pages/versions.rs",
    "the_newest_version_is_that_of_the_crates_and_has_a_file_if_it_is_released",
    "test",
);
const REPLACED: Test =
    Test("tests/e2e/tests/outages/module.rs", "a_module_is_replaced_and_restored_under_load", "test-outages");
const REBUILT: Test =
    Test("tests/docs/tests/pages/workflows.rs", "every_command_of_a_job_is_a_target_with_its_variables", "release");

/// All blocks of commands that `make test-docs` does not run.
pub const ELSEWHERE: [Elsewhere; 35] = [
    on(".github/RELEASE.md", "sed -i", NEXT, RELEASED),
    on(".github/RELEASE.md", "RENEW=1 cargo test", NEXT, RECORDED),
    on(".github/RELEASE.md", "make release TAG=", "minutes, and a version with a date", REBUILT),
    on(".github/RELEASE.md", "LAST_RELEASE=", "the module of the last release", REPLACED),
    on(".github/RELEASE.md", "git tag", NEXT, RELEASED),
    on(".github/RELEASE.md", "gh release download", "a release on GitHub", REBUILT),
    on(".github/RELEASE.md", "OLD=", NEXT, RELEASED),
    on("README.md", "envoy --mode validate", OWN, OWN_SURVIVES),
    on("README.md", "curl -sS -X PUT 127.0.0.1:9200/first-steps", OWN, OWN_SPLITS),
    on("istio/README.md", "kubectl create namespace search", KUBERNETES, IN_KUBERNETES),
    on("istio/README.md", "kubectl apply -f istio/examples/statefulset", KUBERNETES, IN_KUBERNETES),
    on("istio/README.md", "kubectl apply -f istio/examples/gateway", KUBERNETES, IN_KUBERNETES),
    on("istio/README.md", "kubectl apply -k istio/overlays/gateway-envoyfilter", KUBERNETES, IN_KUBERNETES),
    on("istio/README.md", "istioctl -n search proxy-config endpoints", KUBERNETES, IN_KUBERNETES),
    on("istio/README.md", "in_pod() {", KUBERNETES, IN_KUBERNETES),
    on(
        "istio/README.md",
        "kubectl -n search exec deploy/es-gateway -- pilot-agent request GET config_dump",
        KUBERNETES,
        IN_KUBERNETES,
    ),
    on(
        "istio/README.md",
        "kubectl -n search exec es-0 -c opensearch -- curl -s 'localhost:9200/_nodes/http",
        KUBERNETES,
        OTHER_ADDRESSES,
    ),
    on(
        "istio/README.md",
        "kubectl -n search exec deploy/es-gateway -- pilot-agent request GET 'stats?filter=downstream",
        KUBERNETES,
        TLS,
    ),
    on("istio/README.md", "kubectl -n search logs deploy/es-gateway", KUBERNETES, LATER_FAULTS),
    on("filter/README.md", "make image SOURCE=", REGISTRY, PUSHED),
    on("examples/kubernetes/README.md", "make image", REGISTRY, PUSHED),
    on("examples/kubernetes/README.md", "helm install", "a Kubernetes cluster", CHARTED),
    on("examples/docker-compose/README.md", "make build", "a container engine", COMPOSED),
    on("examples/explorer/README.md", "make explorer", "a browser", EXPLORED),
    on("examples/explorer/README.md", "npm pack", "npm, and your own project", INSTALLED),
    on(
        "examples/observability/README.md",
        "prometheus --config.file=examples/observability/prometheus.yaml",
        "minutes to compile Prometheus, and does not end",
        SCRAPED,
    ),
    on("envoy/README.md", "go install github.com/tetratelabs/func-e", "Go, and minutes to compile", FUNC_E),
    on(
        "CONTRIBUTING.md",
        "python3 tests/tools/fetch.py elasticsearch-8",
        "minutes, with another server than `make test` has",
        MATRIX,
    ),
    on("k6/README.md", "k6 run -e BODIES=", "k6, and your own requests", REPLAYED),
    on("k6/README.md", "curl -s http://envoy:9200/_bulk_reshuffle/sample", "other clients that write", REPLAYED),
    on("examples/clients/README.md", "python3 python/", CLIENTS, EXAMPLE_CLIENTS),
    on("examples/clients/README.md", "node javascript/", CLIENTS, EXAMPLE_CLIENTS),
    on("examples/clients/README.md", "go -C go", CLIENTS, EXAMPLE_CLIENTS),
    on("examples/clients/README.md", "java -cp", CLIENTS, EXAMPLE_CLIENTS),
    on("examples/clients/README.md", "curl/index-documents.sh", CLIENTS, EXAMPLE_CLIENTS),
];

const fn on(page: &'static str, begins: &'static str, needs: &'static str, test: Test) -> Elsewhere {
    Elsewhere { page, begins, needs, test }
}
