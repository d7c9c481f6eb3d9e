use bulk_reshuffle::routing::{Route, Unrouted, hash};

use super::documents::{INDEX, id};
use super::driver::Driver;
use super::{Cluster, Load, Routine};

/// Looking up the shards of documents, by their index and id.
pub struct LookingUp {
    driver: Driver,
    ids: Vec<String>,
    routes: Vec<Result<Route, Unrouted>>,
    bytes: usize,
}

impl LookingUp {
    /// Creates the routine for each operation of the load.
    pub fn new(load: Load) -> Self {
        let ids = (0..load.operations()).map(id).collect();
        let routes = Vec::with_capacity(load.operations());
        Self { driver: Driver::new(Cluster::SMALL), ids, routes, bytes: load.operations() * load.bytes }
    }
}

impl Routine for LookingUp {
    fn prepare(&mut self) {
        self.routes.clear();
    }

    fn run(&mut self) {
        let table = self.driver.table();
        self.routes.extend(self.ids.iter().map(|id| table.route(INDEX, Some(hash(id)), None)));
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
