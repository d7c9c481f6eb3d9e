//! Mutual TLS between proxies, with certificates from istiod's CA.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{Folder, Manifests, NAMESPACE, Nodes, Overlay, Pod, Proxy, Traffic, wide};
use bulk_reshuffle_stack::{Client, Response};
use bytes::Bytes;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use serde_json::{Map, Value, json};

use super::gateway_api::check_routes;
use super::{Mesh, Site};

/// The identity of all pods here.
const IDENTITY: &str = "cluster.local/ns/search/sa/default";

/// The namespace and the service account of ECK's operator.
pub const OPERATOR: (&str, &str) = ("elastic-system", "elastic-operator");

/// The identity of the operator, as the README has it.
const OPERATOR_IDENTITY: &str = "cluster.local/ns/elastic-system/sa/elastic-operator";

const GATEWAY: &str = "es-gateway.search.svc.cluster.local";

/// A host for the nodes that an operator calls.
const OPERATORS: &str = "es-internal-http.search.svc.cluster.local";

/// The response header in which a gateway shows what it passes on of a client's certificate.
const SHOWN: &str = "x-certificate";

/// Adds sidecars to the nodes, and checks that proxies use mutual TLS. With components/mtls, the nodes' sidecars refuse
/// plain text, and identities that the values do not name, of a gateway or an operator.
pub async fn split(site: &Site, overlay: &'static str, component: Option<&'static str>) -> Result<String> {
    let proven = split_by_sidecars(site, overlay, component).await;
    // Restore the pods without sidecars, also after a failure.
    site.deploy().await?;
    proven
}

async fn split_by_sidecars(site: &Site, overlay: &'static str, component: Option<&'static str>) -> Result<String> {
    let name = &format!("{overlay}-mutual-tls");
    site.nodes.make_index(name).await?;
    let (mut pods, relays) = site.pods_with_sidecars().await?;
    for pod in &mut pods {
        pod.labels.insert("security.istio.io/tlsMode".to_owned(), json!("istio"));
        site.servers.api.add_pod(pod).await?;
    }
    let inbound = pods.iter().zip(&relays).map(|(pod, relay)| pod.inbound(relay.address));
    let add = |folder: &Folder| {
        folder.set_addresses(&pods)?;
        component.into_iter().try_for_each(|one| folder.add_component(overlay, one))
    };
    let inbound: Vec<Value> = inbound.collect();
    let operator = format!("operator-{name}");
    let labels = Map::from_iter([("app".to_owned(), json!(operator))]);
    let operator = Pod::new(OPERATOR.0, &operator, labels, site.network.address()?);
    let operator = Pod { account: OPERATOR.1.to_owned(), ..operator };
    let admit = |identity: &'static str| -> Result<Overlay> {
        let changed = |folder: &Folder| {
            add(folder)?;
            folder.set([("/elasticsearch/principals", json!([identity]))])
        };
        Ok(Mesh::overlay(site, overlay, changed)?
            .with_objects(inbound.clone())
            .with_objects(operators_objects(&operator)))
    };
    let overlay = admit(IDENTITY)?;
    let mesh = Mesh::start(site, name, &overlay).await?;
    let sidecars = mesh.start_sidecars(&pods).await?;
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_split(name).await?;
    for sidecar in &sidecars {
        let count: u64 = sidecar.stats(r"listener\..*ssl\.handshake").await?.values().sum();
        ensure!(count > 0, "no connection used TLS: {}", sidecar.process.log_extract());
        let plain = Client::new().get(&sidecar.url("/")).await;
        ensure!(plain.is_err() == component.is_some(), "unexpected result in plain text: {plain:?}");
    }
    let others = match component {
        Some(_) => {
            site.servers.api.add_pod(&operator).await?;
            let sidecars = mesh.start_sidecars(std::slice::from_ref(&operator)).await?;
            wait_status(&mesh, &sidecars[0], 403).await?;
            mesh.apply(&admit(OPERATOR_IDENTITY)?).await?;
            wait_status(&mesh, &sidecars[0], 200).await?;
            let denied = async || Ok((mesh.bulk(&Client::new(), "\n").await?.status == 403).then_some(()));
            mesh.wait_until("the nodes deny other identities", denied).await?;
            "plain text and other identities are refused, the operator's too, until the values name it"
        }
        None => "plain text is also accepted",
    };
    mesh.end().await?;
    Ok(format!("{proven}; {others}"))
}

/// Returns a host for the nodes, in place of the operator's Service for them, and a listener for it in the operator's
/// sidecar.
fn operators_objects(operator: &Pod) -> [Value; 2] {
    let host = json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "operators", "namespace": NAMESPACE},
        "spec": {
            "hosts": [OPERATORS],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": [{"number": Nodes::PORT, "name": "http", "protocol": "HTTP"}],
            "workloadSelector": {"labels": {"app": "es"}},
        },
    });
    [host, outbound(operator, &format!("{NAMESPACE}/{OPERATORS}"))]
}

/// Waits until the nodes answer the operator with a status.
async fn wait_status(mesh: &Mesh<'_>, operator: &Proxy, status: u16) -> Result<()> {
    mesh.wait_until(&format!("the nodes answer the operator with {status}"), async || {
        let request =
            Request::get(operator.url("/_cluster/health")).header(HOST, format!("{OPERATORS}:{}", Nodes::PORT));
        Ok((Client::new().send(request.body(Bytes::new())?).await?.status == status).then_some(()))
    })
    .await
}

/// Returns a Sidecar in place of the kernel rules that redirect a pod's own connections, which are for one host.
fn outbound(pod: &Pod, host: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "Sidecar",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "spec": {"workloadSelector": {"labels": pod.labels}, "egress": [{
            "port": {"number": Nodes::PORT, "name": "http", "protocol": "HTTP"},
            "captureMode": "NONE",
            "bind": pod.address.to_string(),
            "hosts": [host],
        }]},
    })
}

/// Starts a gateway as shipped, or with `components/gateway-api`, and clients with sidecars. Their requests are split,
/// although their certificates differ, and plain text is refused.
pub async fn to_gateway(site: &Site, overlay: &'static str, of_gateway_api: bool) -> Result<String> {
    let name = &format!("{overlay}-encrypted{}", if of_gateway_api { "-gateway-api" } else { "" });
    site.nodes.make_index(name).await?;
    let show = |folder: &Folder| {
        const VALUE: &str = "\"certificate: %REQ(x-forwarded-client-cert)%\"";
        if of_gateway_api {
            folder.use_gateway_api(overlay)?;
            let header = "responseHeaderModifier: {remove: [x-bulk-reshuffle-node]";
            let shown = format!("{header}, set: [{{name: {SHOWN}, value: {VALUE}}}]");
            return folder.edit("components/gateway-api/route.yaml", header, &shown);
        }
        let header = "response: {remove: [x-bulk-reshuffle-node]";
        let shown = format!("{header}, set: {{{SHOWN}: {VALUE}}}");
        folder.edit("components/gateway/virtual-service.yaml", header, &shown)
    };
    let label = |app: &str| Map::from_iter([("app".to_owned(), json!(app))]);
    let mut pods = Vec::new();
    for number in 0..2 {
        let name = format!("{name}-client-{number}");
        pods.push(Pod::new(NAMESPACE, &name, label(&name), site.network.address()?));
    }
    let overlay = Mesh::overlay(site, overlay, show)?.encrypted();
    let overlay = overlay.clone().with_objects(objects(site, &overlay, &pods)?);
    let mesh = Mesh::start(site, name, &overlay).await?;
    for pod in &pods {
        site.servers.api.add_pod(pod).await?;
    }
    let sidecars = mesh.start_sidecars(&pods).await?;
    let mut shown = Vec::new();
    for sidecar in &sidecars {
        mesh.wait_until("the gateway splits requests", async || {
            let before = mesh.merged().await?;
            let answer = send(sidecar, Request::post(sidecar.url("/_bulk")), wide(name)).await?;
            Ok((answer.status == 200 && mesh.merged().await? > before).then_some(()))
        })
        .await?;
        let answer = send(sidecar, Request::get(sidecar.url("/")), String::new()).await?.ok()?;
        let certificate = answer.headers.get(SHOWN).context("the gateway does not show the header")?;
        shown.push(certificate.to_str()?.to_owned());
    }
    ensure!(shown.iter().all(|shown| shown == "certificate:"), "the gateway passes {shown:?} on");
    let plain = Client::new().get(&mesh.url("/")).await;
    ensure!(plain.is_err(), "the gateway accepts plain text: {plain:?}");
    check_routes(&mesh).await?;
    mesh.end().await?;
    Ok(format!("requests of {} clients with certificates of their own are split; plain text is refused", pods.len()))
}

/// Returns the gateway's host with its settings for clients, and a listener for it in each client's sidecar.
fn objects(site: &Site, overlay: &Overlay, clients: &[Pod]) -> Result<Vec<Value>> {
    let service = json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "es-gateway", "namespace": NAMESPACE},
        "spec": {
            "hosts": [GATEWAY],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": [{"number": Nodes::PORT, "name": "http", "protocol": "HTTP"}],
            "workloadSelector": {"labels": overlay.labels()},
        },
    });
    let sidecars = clients.iter().map(|pod| outbound(pod, &format!("./{GATEWAY}")));
    let example = Manifests::read(&site.text("istio/examples/gateway/clients.yaml")?)?;
    let settings = ["DestinationRule", "VirtualService"].into_iter().flat_map(|kind| example.all(kind)).cloned();
    Ok([service].into_iter().chain(sidecars).chain(settings).collect())
}

/// Sends a request to the gateway by way of a client's sidecar.
async fn send(sidecar: &Proxy, request: hyper::http::request::Builder, body: String) -> Result<Response> {
    let host = format!("{GATEWAY}:{}", sidecar.listener.port());
    let request = request.header(HOST, host).header(CONTENT_TYPE, "application/x-ndjson");
    Client::new().send(request.body(body.into())?).await
}
