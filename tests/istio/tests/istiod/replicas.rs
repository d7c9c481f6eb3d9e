//! Tests of `istio/examples/gateway`: the choice of a gateway pod by a client's sidecar.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{ControlPlane, Discovery, Kind, Manifests, NAMESPACE, Network, Nodes, Pod};
use bulk_reshuffle_stack::{Client, Tools};
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SERVICE: &str = "es-gateway";
const PORT: u16 = Nodes::PORT;

/// Starts a server in place of a gateway pod; it answers each request with the pod's address.
async fn serve(address: Ipv4Addr) -> Result<()> {
    let listener = TcpListener::bind((address, PORT)).await?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer(connection, address.to_string()));
        }
    });
    Ok(())
}

async fn answer(mut connection: TcpStream, text: String) -> Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        ensure!(connection.read_buf(&mut request).await? > 0, "the client closed the connection");
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    Ok(connection.write_all(format!("{head}{text}").as_bytes()).await?)
}

/// Returns the Kubernetes objects of the gateway with these pods, and of its client with a sidecar.
fn objects(manifests: &Manifests, pods: &[Pod], client: &Pod) -> Result<Vec<Value>> {
    let mut service = manifests.all("Service").next().context("the example has no Service")?.clone();
    service["spec"]["clusterIP"] = json!("10.96.0.2");
    let egress = json!({
        "port": {"number": PORT, "protocol": "HTTP", "name": "http"},
        // Clients connect to the sidecar directly, because nothing here redirects their traffic.
        "captureMode": "NONE",
        "bind": client.address.to_string(),
        "hosts": ["./*"],
    });
    let sidecar = json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "Sidecar",
        "metadata": {"name": "client", "namespace": NAMESPACE},
        "spec": {"workloadSelector": {"labels": client.labels}, "egress": [egress]},
    });
    let slice = Pod::endpoint_slice(SERVICE, "http", PORT, pods);
    Ok(pods.iter().chain([client]).map(Pod::object).chain([service, slice, sidecar]).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_chooses_a_gateway_pod_by_the_caller_and_avoids_a_pod_that_is_down() -> Result<()> {
    // Retries alone, without ejection, leave some of so many callers with the pod that is down.
    const CALLERS: usize = 2_000;
    const REQUESTS: usize = 2;
    let (tools, network, folder) = (Tools::find()?, Network::find()?, tempfile::tempdir()?);
    let example = |file: &str| std::fs::read_to_string(tools.root.join("istio/examples/gateway").join(file));
    let clients = example("clients.yaml")?;
    // There is no CA here for the pods' certificates.
    let plain = clients.replace("tls: {mode: ISTIO_MUTUAL}", "tls: {mode: DISABLE}");
    ensure!(plain != clients, "clients.yaml has no mutual TLS");
    let manifests = Manifests::read(&format!("{}\n---\n{plain}", example("gateway.yaml")?))?;
    let pod = |name: &str, app: &str| -> Result<Pod> {
        let labels = Map::from_iter([("app".to_owned(), json!(app))]);
        Ok(Pod::new(NAMESPACE, name, labels, network.address()?))
    };
    // The last pod exists in Kubernetes, but does not listen.
    let pods = [pod("gateway-0", "gateway")?, pod("gateway-1", "gateway")?, pod("gateway-2", "gateway")?];
    for pod in &pods[..2] {
        serve(pod.address).await?;
    }
    let client = pod("client", "client")?;
    let delivered = Manifests::read("")?
        .with(["DestinationRule", "VirtualService"].into_iter().flat_map(|kind| manifests.all(kind)).cloned());
    let delivered = delivered.with(objects(&manifests, &pods, &client)?);
    let discovery = Discovery::serve(&tools, folder.path(), &delivered).await?;
    let sidecar = discovery.start_proxy(&tools, folder.path(), Kind::Sidecar, &client).await?;

    let (mut chosen, mut spread) = (BTreeSet::new(), Vec::new());
    for caller in 0..CALLERS {
        let mut of_caller = BTreeSet::new();
        for _ in 0..REQUESTS {
            let request =
                Request::get(sidecar.url("/")).header(HOST, format!("{SERVICE}.{NAMESPACE}.svc.cluster.local:{PORT}"));
            let request = request.header(AUTHORIZATION, format!("ApiKey {caller}"));
            let answer = Client::new().send(request.body("".into())?).await?;
            of_caller.insert(answer.ok()?.text());
        }
        spread.extend((of_caller.len() > 1).then_some(caller));
        chosen.extend(of_caller);
    }
    // The pod that is down is ejected between two requests of one caller, and again if it has been back meanwhile.
    let ejections: u64 = sidecar.stats("es-gateway.*ejections_enforced_total").await?.values().sum();
    ensure!(spread.len() as u64 <= ejections, "{ejections} ejections, and callers {spread:?} had several pods");
    ensure!(chosen.len() == 2, "the callers are not spread over two pods: {chosen:?}");
    let stats = sidecar.stats("es-gateway.*upstream_cx_connect_fail$").await?;
    ensure!(stats.values().sum::<u64>() > 0, "the sidecar did not try the pod that is down: {stats:?}");
    Ok(())
}
