use bulk_reshuffle_stack::Distribution;
use fastrand::Rng;
use serde_json::json;

use super::chance::Chance;
use super::operation::Author;
use super::target::{both, orders_items};
use super::template::Side;
use crate::shared_scene::SharedScene;

/// The indices to which the alias `moved` moves.
const MOVES: &[&str] = &["single", "sparse", "plain"];

/// A change of the targets of both sides, of which the filter does not learn before it polls the cluster state.
#[derive(Debug, Clone)]
pub enum Change {
    /// Moves the alias `moved` to another index.
    Alias(&'static str),
    /// Gives the index `late` another default pipeline.
    Pipeline(&'static str),
    /// Redefines the default pipeline of the index `changing`, to do what another pipeline does.
    Definition(&'static str),
    /// Blocks writes to the index `late`, or removes the block.
    Block(bool),
    /// Deletes the indices that operations of the seed have created.
    Deletion,
    /// Replaces the index `red`, whose shards no node may hold, or one of which all shards are started.
    Red(bool),
    /// Creates the index `brief`, which operations must not create, or deletes it. It may require a routing value.
    Brief(Option<bool>),
}

impl Change {
    /// The changes from which each seed starts.
    pub const FIRST: [Self; 6] = [
        Self::Alias("single"),
        Self::Pipeline("_none"),
        Self::Definition("nothing"),
        Self::Block(false),
        Self::Red(true),
        Self::Brief(None),
    ];

    pub fn random(rng: &mut Rng, distribution: Distribution) -> Self {
        let pipeline = |rng: &mut Rng| loop {
            match rng.one_of(&["nothing", "selective", "moving", "naming"]) {
                // Without an order of items, an answer with failures has an order that depends on hashes of ids.
                "selective" | "naming" if !orders_items(distribution) => {}
                name => return name,
            }
        };
        match rng.usize(0..14) {
            0..2 => Self::Alias(rng.one_of(MOVES)),
            2..4 => Self::Pipeline(if rng.percent(25) { "_none" } else { pipeline(rng) }),
            4..7 => Self::Definition(pipeline(rng)),
            7 => Self::Block(rng.bool()),
            8 | 9 => Self::Deletion,
            10 | 11 => Self::Red(rng.bool()),
            _ => Self::Brief(rng.one_of(&[None, Some(false), Some(true)])),
        }
    }
}

impl SharedScene {
    /// Makes a change on both sides, and returns when all nodes know it.
    pub async fn change(&self, change: &Change, distribution: Distribution, seed: u64) {
        let late = both("late").join(",");
        match change {
            Change::Alias(index) => {
                let actions = both("").map(|twin| {
                    let (alias, index) = (format!("{twin}moved"), format!("{twin}{index}"));
                    let old: Vec<_> = MOVES.iter().map(|name| format!("{twin}{name}")).collect();
                    [
                        json!({"remove": {"indices": old, "alias": alias}}),
                        json!({"add": {"index": index, "alias": alias}}),
                    ]
                });
                let url = self.direct(0, "/_aliases");
                self.client.post_json(&url, &json!({"actions": actions.concat()})).await.unwrap().ok().unwrap();
            }
            Change::Pipeline(name) => {
                let name = if *name == "_none" { (*name).to_owned() } else { format!("twin-{name}") };
                self.put(&format!("/{late}/_settings"), &json!({"index.default_pipeline": name})).await;
            }
            Change::Definition(name) => self.define_pipeline("changing", name, distribution).await,
            Change::Block(blocked) => {
                self.put(&format!("/{late}/_settings"), &json!({"index.blocks.write": blocked})).await;
            }
            Change::Deletion => self.delete(&both(&format!("new-{}-*", Author::owner(seed)))).await,
            Change::Red(red) => {
                self.delete(&both("red")).await;
                let nodes = if *red { json!("nowhere") } else { json!("es-*") };
                for side in Side::BOTH {
                    let settings = json!({"settings": {"routing.allocation.include._name": nodes}});
                    self.make_target(side, "red", settings).await;
                }
            }
            Change::Brief(exists) => {
                self.delete(&both("brief")).await;
                if let Some(required) = exists {
                    for side in Side::BOTH {
                        self.make_target(side, "brief", json!({"mappings": {"_routing": {"required": required}}}))
                            .await;
                    }
                }
            }
        }
    }
}
