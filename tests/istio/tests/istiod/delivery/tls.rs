//! Nodes that require TLS, behind a gateway with `components/tls`. The filter has its credentials from a Secret, by
//! `components/state-credentials`.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bulk_reshuffle_e2e::{Authority, GuardedNodes, Guests, Recorded, Wiretap};
use bulk_reshuffle_istio::{Manifests, NAMESPACE, Nodes, SecretVolume, Traffic};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;
use hyper::Request;
use hyper::header::HOST;
use serde_json::{Value, json};

use super::{Mesh, Site};

/// The name in every node's certificate, which `values.yaml` expects.
const NAME: &str = "es-http.search.svc";

const OVERLAY: &str = "gateway-envoyfilter";

/// The credentials in the Secret of `examples/state-credentials`, and others.
const CREDENTIALS: [&str; 2] = ["Basic YnVsay1yZXNodWZmbGU6Y2hhbmdlLW1l", "Basic YnVsay1yZXNodWZmbGU6Y2hhbmdlZA=="];

/// Checks that requests are split, that nothing is sent in plain text, and that only polls have the credentials of a
/// mounted Secret.
pub async fn split(site: &Site) -> Result<String> {
    let name = &format!("{OVERLAY}-tls");
    let authority = Authority::new()?;
    let guards = guard(site, name, &authority).await?;
    let (mut wires, mut pods) = (Vec::new(), site.set.pods.clone());
    for (pod, guard) in pods.iter_mut().zip(guards.addresses()) {
        pod.address = site.network.address()?;
        wires.push(Wiretap::start_at((pod.address, Nodes::PORT).into(), guard).await?);
    }
    let mut volume = SecretVolume::mount(site.folder(&format!("{name}-secret")), &state_user(site, CREDENTIALS[0])?)?;
    let overlay = Mesh::overlay(site, OVERLAY, |folder| {
        folder.add_component(OVERLAY, "tls")?;
        folder.take_credentials(OVERLAY, &volume.folder)?;
        folder.set_addresses(&pods)
    })?;
    let overlay = overlay.with_pods(|set| set.clone_from_slice(&pods)).with_objects([secret(&authority)]);
    let mesh = Mesh::start_splitting(site, name, &overlay).await?;
    let proven = mesh.check_split(name).await?;
    check_credentials(&mesh, &guards, CREDENTIALS[0]).await?;
    volume.update(&state_user(site, CREDENTIALS[1])?)?;
    let polled = |credentials| move |requests: &[Recorded]| requests.iter().any(|one| carries(one, credentials));
    guards.admitted.wait_for_others("a poll with the changed Secret", polled(CREDENTIALS[1])).await?;
    guards.admitted.forget();
    mesh.wait_splitting(name).await?;
    guards.admitted.wait_for_others("another poll", polled(CREDENTIALS[1])).await?;
    check_credentials(&mesh, &guards, CREDENTIALS[1]).await?;
    mesh.end().await?;
    for heard in wires.iter().flat_map(Wiretap::heard).filter(|heard| !heard.is_empty()) {
        ensure!(heard.starts_with(&[0x16, 3]), "a node received plain text");
    }
    guards.end().await?;
    Ok(format!("{proven}; polls have the credentials of a Secret, also when it changes, and nothing else has"))
}

/// Checks that the polls so far have these credentials and other requests have none, not even if a client asks for the
/// host of the polls. Neither Envoy nor the filter shows them.
async fn check_credentials(mesh: &Mesh<'_>, guards: &GuardedNodes, credentials: &str) -> Result<()> {
    let (polls, bulks) = (guards.admitted.others(), guards.admitted.bulks());
    ensure!(!polls.is_empty() && !bulks.is_empty(), "{} polls, {} batches", polls.len(), bulks.len());
    let poll = polls.iter().find(|poll| !carries(poll, credentials));
    ensure!(poll.is_none(), "a poll does not have the credentials: {poll:?}");
    for host in [Mesh::SERVICE, "state.es.internal:9200"] {
        let request = Request::get(mesh.url("/_cat/health")).header(HOST, host);
        Client::new().send(request.body(Bytes::new())?).await?.ok()?;
    }
    let asked = guards.admitted.others().into_iter().filter(|one| one.path() == "/_cat/health").collect::<Vec<_>>();
    ensure!(asked.len() == 2, "the nodes got {asked:?}");
    let leaked = bulks.iter().chain(&asked).find(|one| one.header("authorization").is_some());
    ensure!(leaked.is_none(), "a client's request has credentials: {leaked:?}");
    let secret = credentials.split(' ').nth(1).context("no secret")?;
    for path in ["/config_dump?include_eds", "/stats", "/clusters"] {
        ensure!(!mesh.proxy.admin_text(path).await?.contains(secret), "{path} shows the credentials");
    }
    ensure!(!mesh.proxy.process.log().contains(secret), "the log shows the credentials");
    Ok(())
}

fn carries(request: &Recorded, credentials: &str) -> bool {
    request.header("authorization") == Some(credentials)
}

/// Returns the Secret of `examples/state-credentials` with these credentials.
fn state_user(site: &Site, credentials: &str) -> Result<Value> {
    let text = site.text("istio/examples/state-credentials/secret.yaml")?;
    ensure!(text.contains(CREDENTIALS[0]), "{text}");
    let manifests = Manifests::read(&text.replace(CREDENTIALS[0], credentials))?;
    manifests.all("Secret").next().cloned().context("the example has no Secret")
}

/// Starts proxies in front of the nodes that terminate TLS.
async fn guard(site: &Site, name: &str, authority: &Authority) -> Result<GuardedNodes> {
    let nodes: Vec<_> = site.nodes.cluster.addresses().map(|(_, address)| address).collect();
    let identities: Vec<_> = nodes.iter().map(|_| authority.sign(NAME)).collect::<Result<_>>()?;
    GuardedNodes::start(site.folder(&format!("{name}-guards")), &nodes, &identities, Guests::All).await
}

/// Returns the Secret that `values.yaml` names.
fn secret(authority: &Authority) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "es-ca", "namespace": NAMESPACE},
        "data": {"ca.crt": BASE64_STANDARD.encode(&authority.certificate)},
    })
}
