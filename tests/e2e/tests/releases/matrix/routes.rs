//! The filter's routing table, built from the cluster's answers.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{
    PollAction, PollEvent, Route, RoutingTable, Snapshot, StateCache, Unrouted, Unshared, Upstreams, hash,
};

use bulk_reshuffle_e2e::RealScene;
use serde_json::json;

use super::key::Key;

/// The filter's routing table of a cluster.
#[derive(Debug)]
pub struct Routes {
    known: Known,
    /// The same table from other sources: the cluster's whole state in one piece, and the filter's export.
    again: [Known; 2],
}

#[derive(Debug)]
struct Known {
    table: Rc<RoutingTable>,
    upstreams: Upstreams,
}

/// The destination of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub shard: u64,
    /// The name of the node.
    pub node: String,
}

impl Routes {
    /// Loads the state as the filter does.
    pub async fn load(scene: &RealScene) -> Result<Self> {
        let known = Known::load(async |path| {
            let answer = scene.client.get(&scene.direct(0, &path)?).await?;
            Ok((answer.status.as_u16(), answer.body.to_vec()))
        })
        .await?;
        let mut state = scene.client.get_json(&scene.direct(0, "/_cluster/state")?).await?;
        let aliases = scene.client.get_json(&scene.direct(0, "/_alias")?).await?;
        state["answers"] = json!({ "/_alias": aliases });
        let exported = serde_json::to_vec(&known.table.export("*", usize::MAX, None, None))?;
        let again = [Known::of(state.to_string().as_bytes()).await?, Known::of(&exported).await?];
        Ok(Self { known, again })
    }

    /// Returns the destination of an action line's operation. Checks that the line is read as the key for which it was
    /// written.
    pub fn place(&self, line: &str, key: &Key) -> Result<Result<Place, Unrouted>> {
        let read = ActionLine::read(line.as_bytes()).with_context(|| line.to_owned())?;
        ensure!(read.id.as_deref() == key.id.as_deref() && read.routing.as_deref() == key.routing.as_deref(), "{line}");
        let index = read.index.as_deref().context("the line names no index")?;
        let place = self.known.place(index, key)?;
        for again in &self.again {
            let found = again.place(index, key)?;
            ensure!(found == place, "{line} is {place:?}, but {found:?} in another table");
        }
        Ok(place)
    }
}

impl Known {
    /// Builds the table from the answers to the filter's queries, which `answer` returns by path.
    async fn load(answer: impl AsyncFn(String) -> Result<(u16, Vec<u8>)>) -> Result<Self> {
        let mut cache = StateCache::new(&Config::read(br#"{"coordinator":"es"}"#)?, 1, Box::new(Unshared));
        cache.wake(Time::ZERO);
        loop {
            match cache.next(Time::ZERO) {
                Some(PollAction::Ask(query)) => {
                    let (status, body) = answer(query.path()).await?;
                    cache.answered(status, body, Time::ZERO);
                }
                Some(PollAction::Pause) => {}
                None => bail!("the filter sends no further query, but has no table"),
            }
            match cache.next_event() {
                Some(PollEvent::Failed(error)) => return Err(error.into()),
                Some(PollEvent::Loaded) => break,
                _ => {}
            }
        }
        let mut upstreams = Upstreams::new("es");
        let table = cache.new_table(&mut upstreams).context("there is no table")?;
        Ok(Self { table, upstreams })
    }

    /// Builds the table from a state in one piece.
    async fn of(state: &[u8]) -> Result<Self> {
        let snapshot = Snapshot::read(state)?;
        Self::load(async |path| Ok((200, snapshot.answer(&path)))).await
    }

    fn place(&self, index: &str, key: &Key) -> Result<Result<Place, Unrouted>> {
        Ok(match self.table.route(index, key.id.as_deref().map(hash), key.routing.as_deref()) {
            Ok(Route::Primary { shard, upstream, .. }) => {
                Ok(Place { shard: shard.into(), node: self.upstreams.name(upstream).to_string() })
            }
            Ok(Route::AnyNode) => bail!("{key:?} of {index} may go to any node"),
            Err(why) => Err(why),
        })
    }
}
