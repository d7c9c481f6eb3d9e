//! `examples/kubernetes`: what becomes of requests while its pods are replaced.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_e2e::{KubernetesPod, check_filter};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::service::Service;
use crate::site::{Plan, expect_only};

const LIMIT: Duration = Duration::from_secs(90);

/// A rolling update as the Deployment says: another pod is ready before one is told to end. Kubernetes takes that one
/// out of the Service, runs `preStop`, and ends it.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_replaced_one_after_the_other_under_load() -> Result<()> {
    const PODS: usize = 2;
    const UPDATES: usize = 3;
    let site = Plan::new("pods replaced").index("replaced", json!({})).start().await?;
    let service = Service::start().await?;
    let start = async |number: usize| -> Result<KubernetesPod> {
        let pod = KubernetesPod::start(site.run_dir(), &format!("pod-{number}"), &site.cluster).await?;
        service.add(pod.envoy.addr());
        Ok(pod)
    };
    let mut pods = Vec::new();
    for number in 0..PODS {
        pods.push(start(number).await?);
    }
    let url = format!("http://{}/replaced/_bulk", service.address);
    let size = |n| if n % 6 == 5 { 1000 } else { 30 };
    let mut load = Load::start("replaced", (0..24).map(|n| Writer::new(n, url.clone(), 1..=size(n), 200)));
    let before = load.steady_rate().await?;
    let mut recovered = Duration::ZERO;
    for number in PODS..PODS * (1 + UPDATES) {
        pods.push(start(number).await?);
        let (pod, told) = (pods.remove(0), Instant::now());
        let connections = async || pod.envoy.counter("http.elasticsearch.downstream_cx_active").await;
        let had = connections().await?;
        ensure!(had > 0, "nobody writes to the pod");
        service.remove(pod.envoy.addr());
        ensure!(pod.pre_stop()?.status()?.success(), "preStop failed");
        // There it has 150 seconds for that.
        wait::until(LIMIT, "its clients go elsewhere", async || Ok((connections().await? == 0).then_some(()))).await?;
        println!("pods replaced: {had} connections of a pod were elsewhere after {:.1?}", told.elapsed());
        check_filter(&pod.envoy).await?;
        pod.envoy.stop().await?;
        load.recovers(before).await?;
        recovered = recovered.max(told.elapsed());
    }
    let tally = load.tally.clone();
    site.verify(vec![load]).await?;
    for pod in pods {
        check_filter(&pod.envoy).await?;
        pod.envoy.stop().await?;
    }
    site.end(vec![], recovered).await?;
    ensure!(tally.broken.get() == 0 && tally.conflicts.get() == 0, "{tally:?}");
    expect_only(&tally, &[])
}
