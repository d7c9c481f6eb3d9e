//! The memory of a worker's VM while its upstreams do not answer, and when they do.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::gzip::{Compression, gzip};
use bulk_reshuffle_e2e::{ClusterScript, QuickItems, Scene, raise_file_limit};
use bulk_reshuffle_stack::wait;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

/// The size of a document with its action line, in bytes.
const DOCUMENT: usize = 290;

/// The memory of the program, the routing table, and caches.
const FIXED: u64 = 4 << 20;

/// Returns the limit of a VM's memory.
fn most(held: u64) -> u64 {
    held + held / 2 + FIXED
}

/// Clients that send the same kind of request, all at once.
struct Crowd {
    what: &'static str,
    clients: usize,
    /// The number of documents in each request.
    documents: usize,
    gzip: bool,
}

/// Each crowd except the last one holds more than those before, so that it sets a new peak, in memory that they have
/// fragmented. The last one must fit into the existing memory.
const CROWDS: &[Crowd] = &[
    Crowd { what: "small requests", clients: 10_000, documents: 1, gzip: false },
    Crowd { what: "compressed requests", clients: 1_000, documents: 100, gzip: true },
    Crowd { what: "large requests", clients: 16, documents: 36_000, gzip: false },
    Crowd { what: "small requests again", clients: 10_000, documents: 1, gzip: false },
];

impl Crowd {
    fn id(&self, client: usize, document: usize) -> String {
        format!("{:020}", client * self.documents + document)
    }

    fn body(&self, client: usize) -> Result<Vec<u8>> {
        let mut body = String::new();
        for document in 0..self.documents {
            let begin = body.len();
            write!(body, r#"{{"index":{{"_index":"books","_id":"{}"}}}}"#, self.id(client, document))?;
            body.push_str("\n{\"text\":\"");
            while body.len() + 4 < begin + DOCUMENT {
                write!(body, "{:x} ", fastrand::u16(..))?;
            }
            body.push_str("\"}\n");
        }
        if self.gzip { gzip(body.as_bytes(), Compression::default()) } else { Ok(body.into_bytes()) }
    }
}

/// Returns one worker's peaks so far, in bytes: of requests and answers, and of its VM.
async fn peaks(scene: &Scene) -> Result<(u64, u64)> {
    let stats = scene.envoy.stats_with("memory_peak_bytes").await?;
    let gauge = |name: &str| stats.get(&format!("wasmcustom.bulk_reshuffle_{name}_peak_bytes")).copied();
    Ok((gauge("memory").unwrap_or_default(), gauge("vm_memory").unwrap_or_default()))
}

/// Sends a crowd's requests, all of which are held before any is answered.
async fn hold(scene: &Scene, crowd: &Crowd) -> Result<()> {
    let items = QuickItems::default();
    let gate = scene.cluster.react_with_gate(move |batch, gate| items.answer(batch).unwrap().after(gate));
    let headers: &[_] = if crowd.gzip { &[("content-encoding", "gzip")] } else { &[] };
    let before = scene.counted("operations_total").await?;
    let mut answers = Vec::new();
    for client in 0..crowd.clients {
        answers.push(scene.begin_bulk("/_bulk", headers, crowd.body(client)?));
    }
    let operations = before + (crowd.clients * crowd.documents) as u64;
    let all_are_held = async || Ok((scene.counted("operations_total").await? >= operations).then_some(()));
    wait::until(LIMIT, crowd.what, all_are_held).await?;
    gate.open();
    for (client, answer) in answers.into_iter().enumerate() {
        let answer = answer.get().await?;
        let expected = (0..crowd.documents).map(|document| crowd.id(client, document));
        let ids = QuickItems::read(&answer)?.into_iter().map(|item| item.id);
        ensure!(ids.eq(expected), "client {client} got another's answer");
    }
    scene.cluster.forget();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_uses_little_more_memory_than_is_held_and_in_flight() -> Result<()> {
    raise_file_limit(11_000)?;
    // Enough for all requests and their answers.
    let limits = json!({"limits": {"memory": "640mb"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(limits).start().await?;
    let mut before = peaks(&scene).await?;
    println!("idle: a VM of {} bytes", before.1);
    for crowd in CROWDS {
        hold(&scene, crowd).await?;
        let (held, vm) = peaks(&scene).await?;
        println!("{}: {held} bytes held and in flight, a VM of {vm} bytes", crowd.what);
        let plain = (crowd.clients * crowd.documents * DOCUMENT) as u64;
        assert!(held > plain && vm > plain, "{} of {plain} bytes", crowd.what);
        assert!(vm <= most(held), "{}: the VM uses {vm} bytes, but at most {} are expected", crowd.what, most(held));
        // Free memory is reused.
        assert!(held > before.0 || vm == before.1, "{}: the VM has grown", crowd.what);
        before = (held, vm);
    }
    assert!(scene.passed_through().await?.is_empty());
    scene.finish().await
}
