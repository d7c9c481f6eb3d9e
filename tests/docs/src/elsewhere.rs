use crate::block::Block;

/// Commands that need more than this machine, and what runs them instead.
#[derive(Debug)]
pub struct Elsewhere {
    /// The page.
    pub page: &'static str,
    /// How the block begins.
    pub begins: &'static str,
    /// What it needs.
    pub needs: &'static str,
    /// The file with the test that does the same with what there is.
    pub file: &'static str,
    /// The function in it.
    pub test: &'static str,
    /// The target that runs it.
    pub target: &'static str,
}

impl Elsewhere {
    /// Whether this is about the block.
    pub fn is_of(&self, block: &Block) -> bool {
        let first = block.commands().into_iter().next();
        block.page == self.page && first.is_some_and(|command| command.text.starts_with(self.begins))
    }
}

const KUBERNETES: &str = "a Kubernetes cluster with Istio";
const REGISTRY: &str = "a registry of one's own";

/// Every block of commands that `make test-docs` does not run.
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
        test: "compose_takes_the_file_and_finds_what_it_mounts",
        target: "test-examples",
    },
    Elsewhere {
        page: "examples/explorer/README.md",
        begins: "make explorer",
        needs: "a browser",
        file: "tests/browser/tests/pages/explorer.rs",
        test: "the_explorer_shows_what_core_says",
        target: "test-browser",
    },
    Elsewhere {
        page: "examples/explorer/README.md",
        begins: "npm pack",
        needs: "npm, and a project of one's own",
        file: "examples/explorer/tests/package.rs",
        test: "the_package_installs_and_says_what_core_says",
        target: "test-explorer",
    },
    Elsewhere {
        page: "examples/observability/README.md",
        begins: "prometheus --config.file=examples/observability/prometheus.yaml",
        needs: "minutes to compile Prometheus, and never ends",
        file: "tests/observability/tests/observability/live.rs",
        test: "the_dashboard_and_the_alerts_see_what_real_envoys_tell",
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
        test: "every_kind_on_every_version",
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
        test: "every_program_tells_what_was_not_indexed_and_sends_again_what_was_refused",
        target: "test-example-clients",
    }
}

const fn in_istio(page: &'static str, begins: &'static str) -> Elsewhere {
    Elsewhere {
        page,
        begins,
        needs: KUBERNETES,
        file: "tests/istio/tests/full/main.rs",
        test: "what_kubectl_applies_carries_traffic",
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
