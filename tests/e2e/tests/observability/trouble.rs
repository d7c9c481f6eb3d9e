use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load::Clients;
use bulk_reshuffle_e2e::{ClusterScript, Index, Items, Reaction, Recorded, Scene, lines};
use bulk_reshuffle_stack::Client;
use serde_json::{Value, json};

/// Names of Envoy's clusters, each with its name in Istio's proxies. Of the nodes, one is named like this, and the others
/// like nodes in one cluster.
const IN_MESH: [(&str, &str); 2] =
    [("es", "outbound|9200||any.es.internal"), ("es-0", "outbound|9200||es-0.es.internal")];

/// The timeout of a request. Only requests that a dead VM held take longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The filter's memory limit.
const MEMORY: usize = 1 << 20;
/// An update whose connection breaks.
const BROKEN: &str = r#"{"script":{"source":"broken"}}"#;

/// The time after which batches are late, with `hold.late_after` of 500 ms.
const LATE: Duration = Duration::from_secs(1);

/// The text of a document whose batch is refused.
const OFFENCE: &str = "offence";

/// The text of a request whose batch is never answered.
const HANG: &str = "hang";
/// The size of such a request.
const HUNG: usize = MEMORY / 20;
/// The number of such requests. Two clients send each, so that together they exceed the memory.
const ALL_HUNG: usize = 12;
/// The size of a request that does not fit into the remaining memory.
const MUCH: usize = MEMORY / 2;

/// Envoy under load, in front of nodes that refuse, reset, hang and send wrong answers, so that all counters grow.
pub struct Trouble {
    clients: Clients<()>,
    scene: Scene,
}

impl Trouble {
    /// Starts Envoy with a compiled filter. In a mesh, the upstreams have Istio's names, and Envoy does not turn parts
    /// of metric names into labels.
    pub async fn start(wasm: PathBuf, is_mesh: bool) -> Result<Self> {
        let name =
            |name: &'static str| IN_MESH.iter().find(|(plain, _)| is_mesh && *plain == name).map_or(name, |it| it.1);
        let options = Scene::of(script()).own_envoy().wasm(wasm).without_upstream(2).config(json!({
            "coordinator": name("es"),
            "nodes": {"upstreams": {"es-0": name("es-0")}},
            "cluster_state": {"refresh": "200ms"},
            "single_documents": true,
            "indices": [{"pattern": "watched", "enabled": "observe"}],
            "hold": {"late_after": "500ms"},
            // The scripted nodes recognise batches by their text.
            "dispatch": {"timeout": "2s", "max_in_flight_per_node": 64, "compress": false},
            "retry": {"backoff": "10ms"},
            "limits": {"memory": "1mb", "max_request": "1mb"},
        }));
        let edit = move |config: &mut Value| {
            config["node"]["locality"] = json!({"zone": "a"});
            if is_mesh { rename(config) } else { Ok(()) }
        };
        let scene = options.edit(edit).start().await?;
        scene.cluster.react(react);
        scene.cluster.react_to_state_queries(answer);
        // The filter queries settings only with a new state.
        scene.cluster.change(|_| {});
        let mut clients = Clients::default();
        for body in bodies(&scene)? {
            // With another query they have a hold of their own, and no other request shares their batches.
            let target = if body.contains(HANG) { "/_bulk?timeout=1m" } else { "/_bulk" };
            for client in 0..2 {
                let (http, url) = (Client::new().with_timeout(PATIENCE), scene.envoy.url(target));
                let (piped, body) = (scene.envoy.url("/_bulk?pipeline=p"), body.clone());
                clients.add((), move |(), number| {
                    let url = if number % 4 == client { piped.clone() } else { url.clone() };
                    let (http, body) = (http.clone(), body.clone());
                    async move {
                        // The outcome of the request does not matter.
                        http.post_ndjson(&url, body).await.ok();
                        Ok(())
                    }
                });
            }
        }
        let id = scene.cluster.script().ids("books", 0)?.next().context("no id")?;
        let (http, url) = (Client::new().with_timeout(PATIENCE), scene.envoy.url(&format!("/books/_doc/{id}")));
        clients.add((), move |(), number| {
            let text = if number.is_multiple_of(2) { "alone" } else { OFFENCE };
            let (http, url) = (http.clone(), url.clone());
            async move {
                http.put_json(&url, &json!({"text": text})).await.ok();
                Ok(())
            }
        });
        Ok(Self { clients, scene })
    }

    pub fn admin(&self) -> SocketAddr {
        self.scene.envoy.admin()
    }

    /// Stops the load and kills the VM.
    pub async fn kill_vm(&mut self) -> Result<()> {
        std::mem::take(&mut self.clients).end().await?;
        // The second request gets a new VM. The first one's answer does not matter.
        for headers in [&[("x-forced-trap", "1")][..], &[]] {
            self.scene.bulk_with("/_bulk", headers, "\n").await.ok();
        }
        Ok(())
    }

    pub async fn stop(self) -> Result<()> {
        self.clients.end().await?;
        self.scene.envoy.stop().await
    }
}

/// Returns the scripted cluster. The filter cannot route operations on `series`.
fn script() -> ClusterScript {
    let index = |name: &str| Index::new(name, [0, 1, 2]);
    ClusterScript::three_nodes()
        .zones(&["a", "b", "b"])
        .index(index("lies"))
        .index(index("watched"))
        .index(index("series").setting("mode", "another"))
}

/// Returns the clients' bodies. Each client always sends the same body.
fn bodies(scene: &Scene) -> Result<Vec<String>> {
    let script = scene.cluster.script();
    let id = |index: &str, node| script.ids(index, node)?.next().context("no id");
    let (first, second, third) = (id("books", 0)?, id("books", 1)?, id("books", 2)?);
    let hung = lines::with_source(
        "index",
        "books",
        &first,
        &json!({"text": format!("{HANG}{}", "x".repeat(HUNG))}).to_string(),
    );
    let bodies = vec![
        lines::index("books", &first, 1),
        lines::index("books", &second, 1),
        lines::index("books", &third, 1),
        // The filter must not retry these operations, so their outcome is unknown at each upstream.
        lines::with_source("update", "books", &first, BROKEN),
        lines::with_source("update", "books", &second, BROKEN),
        lines::with_source("update", "books", &third, BROKEN),
        lines::with_source("index", "books", &first, &json!({"text": OFFENCE}).to_string()),
        [
            lines::index("lies", &id("lies", 1)?, 1),
            lines::index("lies", &script.ids("lies", 1)?.nth(1).context("no id")?, 2),
        ]
        .concat(),
        lines::index("series", "1", 1),
        // Only observed, with an operation that the filter cannot route.
        [
            lines::index("watched", &id("watched", 0)?, 1),
            lines::index("watched", &id("watched", 1)?, 1),
            lines::index("series", "1", 1),
        ]
        .concat(),
        lines::large("books", &first, MUCH),
        // Passes through as empty.
        "\n".to_owned(),
    ];
    Ok([bodies, vec![hung; ALL_HUNG]].concat())
}

/// Returns the nodes' reaction to a bulk request.
fn react(request: &Recorded) -> Reaction {
    let text = request.text();
    match () {
        // The filter leaves this header out of batches. Requests that pass through are answered, so that their clients
        // soon try to fill the memory again.
        () if text.contains(HANG) && request.header("x-request-id").is_none() => Reaction::hang(),
        () if text.contains(OFFENCE) => Reaction::refusal(400, "illegal_argument_exception", "an offence"),
        () if text.contains("\"lies\"") => Reaction::Items(Items::default().change(|items| items.reverse())),
        () if text.contains("broken") => Reaction::Reset,
        () if request.target.contains("pipeline") => Reaction::refusal(503, "unavailable_exception", "not now"),
        // The filter gives these operations to the coordinator, which is late like a node.
        () if text.contains("\"series\"") && fastrand::u8(..) < 16 => Reaction::items().late(LATE),
        () if fastrand::u8(..) < 64 => Reaction::refusal(429, "busy_exception", "too much"),
        () if fastrand::u8(..) < 32 => Reaction::Reset,
        () => Reaction::items().late(Duration::from_millis(5)),
    }
}

/// Returns the nodes' reaction to other requests, unless it is the scripted cluster's own.
fn answer(request: &Recorded) -> Option<Reaction> {
    if request.path() == "/_cluster/settings" {
        let settings = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": {"interval": "never"}}}}});
        return Some(Reaction::raw(settings.to_string()));
    }
    // Each upstream must be at fault at some time, and the filter checks them less and less often.
    let failures = if request.path() == "/_nodes/_local" { 192 } else { 64 };
    (fastrand::u8(..) < failures).then(|| Reaction::refusal(503, "unavailable_exception", "not now"))
}

/// Renames the clusters as in Istio's proxies.
fn rename(config: &mut Value) -> Result<()> {
    let config_object = config.as_object_mut().context("the configuration is not an object")?;
    config_object.remove("stats_config").context("no stats_config")?;
    let text = IN_MESH.iter().fold(config.to_string(), |text, (plain, in_mesh)| {
        text.replace(&format!("\"{plain}\""), &format!("\"{in_mesh}\""))
    });
    *config = serde_json::from_str(&text)?;
    Ok(())
}
