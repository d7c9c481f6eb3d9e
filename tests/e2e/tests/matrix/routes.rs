//! What the filter's own table says, from the cluster's own answers.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{Errand, News, Route, RoutingTable, StateCache, Unrouted, Unshared, Upstreams, hash};

use crate::key::Key;
use crate::site::Site;

/// The filter's table of a cluster.
#[derive(Debug)]
pub struct Routes {
    table: Rc<RoutingTable>,
    upstreams: Upstreams,
}

/// Where an operation goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub shard: u64,
    /// The name of the node.
    pub node: String,
}

impl Routes {
    /// Asks for the state as the filter does.
    pub async fn load(site: &Site) -> Result<Self> {
        let mut cache = StateCache::new(&Config::read(br#"{"coordinator":"es"}"#)?, 1, Box::new(Unshared));
        cache.wake(Time::ZERO);
        loop {
            match cache.next(Time::ZERO) {
                Some(Errand::Ask(question)) => {
                    let answer = site.client.get(&site.direct(0, &question.path())?).await?;
                    cache.answered(answer.status.as_u16(), answer.body.to_vec(), Time::ZERO);
                }
                Some(Errand::Pause) => {}
                None => bail!("the filter asks no more and knows nothing"),
            }
            match cache.news() {
                Some(News::Failed(error)) => return Err(error.into()),
                Some(News::Loaded) => break,
                _ => {}
            }
        }
        let mut upstreams = Upstreams::new("es");
        let table = cache.new_table(&mut upstreams).context("there is no table")?;
        Ok(Self { table, upstreams })
    }

    /// Where the operation of an action line goes, once that was read as the key which it was written for.
    pub fn place(&self, line: &str, key: &Key) -> Result<Result<Place, Unrouted>> {
        let read = ActionLine::read(line.as_bytes()).with_context(|| line.to_owned())?;
        ensure!(read.id.as_deref() == key.id.as_deref() && read.routing.as_deref() == key.routing.as_deref(), "{line}");
        let index = read.index.as_deref().context("the line names no index")?;
        Ok(match self.table.route(index, read.id.as_deref().map(hash), read.routing.as_deref()) {
            Ok(Route::Primary { shard, upstream, .. }) => {
                Ok(Place { shard: shard.into(), node: self.upstreams.name(upstream).to_string() })
            }
            Ok(Route::AnyNode) => bail!("{line} may go to any node"),
            Err(why) => Err(why),
        })
    }
}
