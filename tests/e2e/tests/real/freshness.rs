use std::cell::Cell;
use std::time::{Duration, Instant};

use bulk_reshuffle_e2e::lines;
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::shared_scene::SharedScene;

/// A limit far above the expected time.
const LIMIT: Duration = Duration::from_secs(20);

impl SharedScene {
    /// Creates an index by a bulk request. Returns the time from its answer until the filter routes to the index.
    async fn learns(&self, index: &str) -> Duration {
        self.client.delete(&self.direct(0, &format!("/{index}"))).await.unwrap();
        let number = Cell::new(0);
        let write = async || {
            let n = number.replace(number.get() + 1);
            let body = lines::index(index, &n.to_string(), n);
            assert_eq!(self.bulk(&body).await.ok().unwrap().json().unwrap()["errors"], false);
        };
        let before = self.merged().await;
        write().await;
        assert_eq!(self.merged().await, before, "the index was known before it existed");
        let created = Instant::now();
        wait::until(LIMIT, "the filter routes to the index", async || {
            write().await;
            Ok((self.merged().await > before).then_some(()))
        })
        .await
        .unwrap();
        let after = created.elapsed();
        assert_eq!(self.documents(index).await, number.get());
        after
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_a_request_creates_is_routed_almost_immediately() {
    // The first interval is so long that no regular poll can find the index.
    for (refresh, indices) in [("10m", 1), ("5s", 4)] {
        let name = format!("learnt-{refresh}");
        let scene = SharedScene::start_with(&name, json!({"cluster_state": {"refresh": refresh}})).await;
        for number in 0..indices {
            let after = scene.learns(&format!("{name}-{number}")).await;
            println!("an index that a request created: routed {after:.0?} later, with a refresh every {refresh}");
            // Hints trigger an early poll, but only at a limited rate.
            assert!(after < Duration::from_millis(1500), "{after:?}");
        }
        scene.end().await;
    }
}
