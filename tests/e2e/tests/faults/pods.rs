//! `examples/kubernetes`: requests while the pods are replaced.

use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_e2e::{KubernetesPod, check_filter};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::LIMIT;
use crate::fault_scene::{Plan, paced};
use crate::service::Service;

/// A rolling update as the Deployment configures it: a new pod is ready before Kubernetes removes an old pod from the
/// Service, runs its `preStop`, and ends it.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_pods_are_replaced() -> Result<()> {
    const PODS: usize = 2;
    const UPDATES: usize = 3;
    const NAME: &str = "pods replaced";
    let (backend, folder) = (Plan::new(NAME).index("pods", json!({})).backend().await?, tempfile::tempdir()?);
    let nodes: Vec<_> = backend.nodes.iter().map(|(_, address)| *address).collect();
    let service = Service::start().await?;
    let start = async |number: usize| -> Result<KubernetesPod> {
        let pod = KubernetesPod::start(folder.path(), &format!("pod-{number}"), &nodes).await?;
        service.add(pod.envoy.addr());
        Ok(pod)
    };
    let mut pods = Vec::new();
    for number in 0..PODS {
        pods.push(start(number).await?);
    }
    let url = format!("http://{}/pods/_bulk", service.address);
    let size = |n| if n % 6 == 5 { 1000 } else { 30 };
    let writer = |n| paced(Writer::new(n, url.clone(), 1..=size(n), 200), size(n));
    let mut load = Load::start("pods", (0..24).map(writer));
    let before = load.steady_rate().await?;
    for number in PODS..PODS * (1 + UPDATES) {
        pods.push(start(number).await?);
        let (pod, begun) = (pods.remove(0), Instant::now());
        let connections = async || pod.envoy.counter("http.elasticsearch.downstream_cx_active").await;
        let had = connections().await?;
        ensure!(had > 0, "no client writes to the pod");
        service.remove(pod.envoy.addr());
        ensure!(pod.pre_stop()?.status()?.success(), "preStop failed");
        // Kubernetes allows 150 seconds for this.
        wait::until(LIMIT, "the pod's clients move to other pods", async || {
            Ok((connections().await? == 0).then_some(()))
        })
        .await?;
        println!("pods replaced: {had} connections of a pod had moved after {:.1?}", begun.elapsed());
        check_filter(&pod.envoy).await?;
        pod.envoy.stop().await?;
        load.recovers(before).await?;
    }
    let tallies = backend.verify(NAME, vec![load]).await?;
    for pod in pods {
        check_filter(&pod.envoy).await?;
        pod.envoy.stop().await?;
    }
    backend.end().await?;
    tallies.iter().try_for_each(|tally| tally.check(&[]))
}
