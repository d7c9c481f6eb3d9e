//! Tests of every script, with small parameters, against a real cluster behind a real Envoy with the filter.

use std::ops::RangeInclusive;
use std::path::Path;

use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_k6::{Script, Site, activity};
use bulk_reshuffle_stack::{Counters, FilterConfig, Profile, Tools};
use serde_json::json;

use crate::run::Run;

struct Case {
    script: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    /// The expected number of operations, by phase.
    phases: &'static [(&'static str, RangeInclusive<u64>)],
    /// The expected number of documents at the end, by index.
    indices: &'static [(&'static str, RangeInclusive<u64>)],
    /// The expected average bytes of an operation, including its share of the request's head.
    bytes: RangeInclusive<u64>,
}

const CASES: &[Case] = &[
    Case {
        script: "bulk-size",
        parameters: &[("SIZES", "1,30,120,500"), ("DOCUMENTS", "500")],
        phases: &[("1", 500..=500), ("30", 500..=500), ("120", 500..=500), ("500", 500..=500)],
        indices: &[("k6-bulk-size-1", 500..=500), ("k6-bulk-size-120", 500..=500)],
        bytes: 280..=400,
    },
    Case {
        script: "concurrency",
        parameters: &[("CLIENTS", "1,4,30,256"), ("STEP_SECONDS", "2")],
        phases: &[("1", 10..=u64::MAX), ("4", 10..=u64::MAX), ("30", 10..=u64::MAX), ("256", 10..=u64::MAX)],
        indices: &[("k6-concurrency", 40..=u64::MAX)],
        bytes: 280..=350,
    },
    Case {
        script: "gateway",
        parameters: &[("REQUESTS", "2")],
        phases: &[("without", 20_000..=20_000), ("new", 20_000..=20_000), ("again", 20_000..=20_000)],
        indices: &[("k6-gateway-without-ids", 20_000..=20_000), ("k6-gateway-with-ids", 20_000..=20_000)],
        bytes: 270..=310,
    },
    Case {
        script: "mixed",
        parameters: &[("CLIENTS", "4"), ("REQUESTS", "25")],
        phases: &[("tenant a", 2000..=2000), ("tenant b", 2000..=2000)],
        indices: &[("k6-mixed-hot", 1000..=2000), ("k6-mixed-a", 100..=500), ("k6-mixed-b", 100..=500)],
        bytes: 150..=300,
    },
    Case {
        script: "rate",
        parameters: &[("RATE", "100"), ("BULK_SIZE", "3"), ("SECONDS", "2")],
        // On a busy machine, k6 starts too few requests, or ends the phase late.
        phases: &[("100/s", 300..=660)],
        indices: &[("k6-rate", 300..=660)],
        bytes: 280..=400,
    },
    Case {
        script: "small",
        parameters: &[("REQUESTS", "2000"), ("WARM_UP", "2500")],
        phases: &[("small", 2000..=2000)],
        indices: &[("k6-small", 2000..=2000)],
        bytes: 300..=500,
    },
    Case {
        script: "small",
        parameters: &[("REQUESTS", "2000"), ("WARM_UP", "2500"), ("API", "document")],
        phases: &[("small", 2000..=2000)],
        indices: &[("k6-small", 2000..=2000)],
        bytes: 300..=500,
    },
    Case {
        script: "trips",
        parameters: &[("DOCUMENTS", "4000"), ("BULK_SIZE", "250")],
        phases: &[("request", 4000..=4000), ("async", 4000..=4000)],
        indices: &[("k6-trips-request", 4000..=4000), ("k6-trips-async", 4000..=4000)],
        bytes: 640..=660,
    },
];

#[tokio::test]
async fn every_script_accepts_every_answer() {
    let tools = Tools::find().unwrap();
    let mut cases: Vec<&str> = CASES.iter().map(|case| case.script).collect();
    cases.dedup();
    let mut names = Script::names(&tools).unwrap();
    // `replay.rs` tests this one.
    names.retain(|name| name != "replay");
    assert_eq!(cases, names, "the tested scripts must be all scripts");
    let run_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("k6");
    // A script may end within a second, which is shorter than the shipped filter's interval to look for new indices.
    let filter = FilterConfig::Merged(json!({"cluster_state": {"refresh": "100ms"}, "single_documents": true}));
    let site = Site::start(&tools, &run_dir, Profile::Fast, filter).await.unwrap();
    for case in CASES {
        case.check(&tools, &site).await;
    }
    check_filter(&site.envoy).await.unwrap();
    site.stop().await.unwrap();
}

impl Case {
    async fn check(&self, tools: &Tools, site: &Site) {
        let before = Counters::read(&site.envoy).await.unwrap();
        let parameters = [("WARM_UP", "0")].iter().chain(self.parameters);
        let run = Run::of(tools, self.script, &site.target(), parameters.copied()).await;
        println!("{}", run.output);
        assert_eq!(run.code, Some(0), "{}", self.script);

        for (phase, operations) in self.phases {
            let found = run.figure(&format!("bulk_operations{{phase:{phase}}}"), "count");
            assert!(operations.contains(&found), "{} phase {phase}: {found} operations", self.script);
        }
        for (index, documents) in self.indices {
            let counted = run.figure(&format!("documents_counted{{index:{index}}}"), "count");
            assert!(documents.contains(&counted), "{index}: {counted} documents");
        }
        let operations = run.figure("bulk_operations", "count");
        let bytes = run.figure("data_sent", "count") / operations;
        assert!(self.bytes.contains(&bytes), "{}: {bytes} bytes per operation", self.script);
        // k6 writes no report of a very short run, and only this script's duration does not depend on the machine.
        if self.script == "concurrency" {
            assert!(run.report().contains("<title>k6 report"), "the report is missing");
        }

        let counters = Counters::read(&site.envoy).await.unwrap().since(&before);
        println!("  the filter: {}", activity(&counters));
        let requests = run.figure("bulk_duration", "count");
        let passed: u64 = counters.passed_through().values().sum();
        let introduction = 1;
        assert_eq!(counters.merged() + passed, introduction + requests, "the filter must count every request");
        assert!(counters.merged() > 0, "nothing was split");
    }
}
