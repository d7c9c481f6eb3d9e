use crate::block::Block;

/// A block of commands that cannot run on this machine as it is, and the test that covers it.
#[derive(Debug)]
pub struct Elsewhere {
    /// The page.
    pub page: &'static str,
    /// The beginning of the block.
    pub begins: &'static str,
    /// The requirements of the commands.
    pub needs: &'static str,
    /// The file with the test that covers the commands.
    pub file: &'static str,
    /// The test's function.
    pub test: &'static str,
    /// The target of `make` that runs the test.
    pub target: &'static str,
}

impl Elsewhere {
    /// Reports whether this entry is about a block.
    pub fn is_of(&self, block: &Block) -> bool {
        let first = block.commands().into_iter().next();
        block.page == self.page && first.is_some_and(|command| command.text.starts_with(self.begins))
    }
}

const KUBERNETES: &str = "a Kubernetes cluster with Istio";
const REGISTRY: &str = "your own registry";

/// All blocks of commands that `make test-docs` does not run.
pub const ELSEWHERE: [Elsewhere; 23] = [
    in_istio("README.md", "kubectl create namespace search"),
    in_istio("istio/README.md", "kubectl create namespace search"),
    in_istio("istio/README.md", "kubectl apply -f istio/examples/statefulset"),
    in_istio("istio/README.md", "kubectl apply -f istio/examples/gateway"),
    in_istio("istio/README.md", "kubectl apply -k istio/overlays/gateway-envoyfilter"),
    in_istio("istio/README.md", "istioctl -n search proxy-config endpoints"),
    in_istio("istio/README.md", "in_pod() {"),
    Elsewhere {
        page: "istio/README.md",
        begins: "kubectl -n search exec es-0 -c opensearch -- curl -s 'localhost:9200/_cat/nodes",
        needs: KUBERNETES,
        file: "tests/istio/tests/delivery/mistakes.rs",
        test: "other_names",
        target: "test-istio",
    },
    Elsewhere {
        page: "istio/README.md",
        begins: "kubectl -n search exec deploy/es-gateway -- pilot-agent request GET 'stats?filter=downstream",
        needs: KUBERNETES,
        file: "tests/istio/tests/delivery/mistakes.rs",
        test: "tls",
        target: "test-istio",
    },
    Elsewhere {
        page: "istio/README.md",
        begins: "kubectl -n search logs deploy/es-gateway",
        needs: KUBERNETES,
        file: "tests/istio/tests/full/failures.rs",
        test: "later",
        target: "test-istio-full",
    },
    pushed("filter/README.md", "make image SOURCE="),
    pushed("examples/kubernetes/README.md", "make image"),
    Elsewhere {
        page: "examples/docker-compose/README.md",
        begins: "make build",
        needs: "a container engine",
        file: "tests/e2e/tests/examples.rs",
        test: "the_compose_file_is_valid_and_its_mounts_exist",
        target: "test-examples",
    },
    Elsewhere {
        page: "examples/explorer/README.md",
        begins: "make explorer",
        needs: "a browser",
        file: "tests/browser/tests/pages/explorer.rs",
        test: "the_explorer_shows_the_engines_results",
        target: "test-browser",
    },
    Elsewhere {
        page: "examples/explorer/README.md",
        begins: "npm pack",
        needs: "npm, and your own project",
        file: "examples/explorer/tests/package.rs",
        test: "the_package_installs_and_returns_the_engines_results",
        target: "test-explorer",
    },
    Elsewhere {
        page: "examples/observability/README.md",
        begins: "prometheus --config.file=examples/observability/prometheus.yaml",
        needs: "minutes to compile Prometheus, and does not end",
        file: "tests/observability/tests/observability/live.rs",
        test: "the_dashboard_and_the_alerts_work_with_real_envoys",
        target: "test-observability",
    },
    Elsewhere {
        page: "envoy/README.md",
        begins: "go install github.com/tetratelabs/func-e",
        needs: "Go, and minutes to compile",
        file: "tests/e2e/tests/scripted/func_e.rs",
        test: "func_e_starts_the_shipped_configuration_with_the_pinned_envoy",
        target: "test",
    },
    Elsewhere {
        page: "CONTRIBUTING.md",
        begins: "python3 tests/tools/fetch.py elasticsearch-8",
        needs: "minutes, with another server than `make test` has",
        file: "tests/e2e/tests/matrix/main.rs",
        test: "every_kind_is_routed_as_expected_on_every_version",
        target: "test-matrix",
    },
    example_client("python3 python/"),
    example_client("node javascript/"),
    example_client("go -C go"),
    example_client("java -cp"),
    example_client("curl/index-documents.sh"),
];

const fn example_client(begins: &'static str) -> Elsewhere {
    Elsewhere {
        page: "examples/clients/README.md",
        begins,
        needs: "clients of its language",
        file: "tests/e2e/tests/example_clients/clients.rs",
        test: "every_program_reports_failed_documents_and_retries_refused_ones",
        target: "test-example-clients",
    }
}

const fn in_istio(page: &'static str, begins: &'static str) -> Elsewhere {
    Elsewhere {
        page,
        begins,
        needs: KUBERNETES,
        file: "tests/istio/tests/full/main.rs",
        test: "manifests_that_kubectl_applies_handle_traffic",
        target: "test-istio-full",
    }
}

const fn pushed(page: &'static str, begins: &'static str) -> Elsewhere {
    Elsewhere {
        page,
        begins,
        needs: REGISTRY,
        file: "filter/image/tests/registry.rs",
        test: "istio_pulls_only_the_module_that_the_digest_names",
        target: "test-image",
    }
}
