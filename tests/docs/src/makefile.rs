use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Targets that `.ci/run` does not make, with the reasons.
pub const OUTSIDE_CI: [(&str, Need); 11] = [
    ("help", Need::RunBy("tests/docs/tests/pages/help.rs", "every_target_is_in_the_help")),
    ("check", Need::Reason("does a part of `make lint` and `make test`")),
    ("up", Need::RunBy("tests/docs/tests/on_demand/walk/mod.rs", "every_command_of_every_page")),
    ("down", Need::RunBy("tests/docs/tests/on_demand/walk/mod.rs", "every_command_of_every_page")),
    (
        "differential",
        Need::RunBy("tests/e2e/tests/real/differential/mod.rs", "the_filter_answers_what_the_cluster_answers"),
    ),
    ("k6", Need::RunBy("k6/runner/tests/k6/scripts.rs", "every_script_accepts_every_answer")),
    ("test-observability", Need::Reason("compiles Prometheus first, for three minutes")),
    (
        "test-kubernetes",
        Need::Reason("compiles Kubernetes' API server, the rest of Istio and Envoy Gateway, for twenty minutes"),
    ),
    ("bench", Need::Reason("measures for a quarter of an hour; its tests are among `make test`")),
    ("bench-core", Need::Reason("measures, by routines whose tests are among `make test`")),
    ("bench-size", Need::Reason("measures; its tests are among `make test`")),
];

/// The reason why `.ci/run` does not need a target.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// A test covers the target: its file and its function.
    RunBy(&'static str, &'static str),
    /// A reason for readers.
    Reason(&'static str),
}

/// The targets of the checkout's `Makefile`.
#[derive(Debug)]
pub struct Makefile {
    /// The prerequisites of each target.
    targets: BTreeMap<String, Vec<String>>,
    /// The targets that `.ci/run` makes.
    ci: BTreeSet<String>,
}

impl Makefile {
    /// Reads `Makefile` and `.ci/steps.py`.
    pub fn read(root: &Path) -> Result<Self> {
        let text = |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"));
        let (makefile, ci) = (text("Makefile")?, text(".ci/steps.py")?);
        let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:")).context("no .PHONY")?;
        let mut targets: BTreeMap<String, Vec<String>> =
            phony.split_whitespace().map(|name| (name.to_owned(), Vec::new())).collect();
        for line in makefile.lines().filter(|line| !line.starts_with(['\t', '#', '.'])) {
            let Some((name, needs)) = line.split_once(':') else { continue };
            let needs = needs.split('#').next().unwrap_or_default();
            if let Some(known) = targets.get_mut(name).filter(|_| !needs.contains('=')) {
                known.extend(needs.split_whitespace().map(str::to_owned));
            }
        }
        let ci = ci.split("\"make ").skip(1).filter_map(|arguments| arguments.split([' ', '"']).next());
        let ci = ci.map(str::to_owned).collect();
        Ok(Self { targets, ci })
    }

    /// Returns all phony targets.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// Reports whether a target exists.
    pub fn has(&self, target: &str) -> bool {
        self.targets.contains_key(target)
    }

    /// Reports whether `.ci/run` makes a target, directly or as a prerequisite.
    pub fn is_in_ci(&self, target: &str) -> bool {
        self.ci.contains(target)
            || self.targets.iter().any(|(other, needs)| needs.iter().any(|need| need == target) && self.is_in_ci(other))
    }
}
