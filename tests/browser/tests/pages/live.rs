use anyhow::Result;
use bulk_reshuffle_browser::look_at;
use bulk_reshuffle_e2e::RealScene;
use bulk_reshuffle_e2e::load::{self, Clients};
use bulk_reshuffle_stack::{Client, FilterConfig, Tools};
use serde_json::json;

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 48;

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_shows_what_the_filter_does_under_load() -> Result<()> {
    let tools = Tools::find()?;
    let filter = FilterConfig::Merged(json!({
        "admin_path": "/_bulk_reshuffle",
        "credentials": {"authorization": "Basic aHVzaDpodXNo"},
    }));
    let scene = RealScene::start(&tools, filter, &["logs", "piped"]).await?;
    scene.put("/_ingest/pipeline/nothing", json!({"processors": []})).await?;
    let mut clients = Clients::default();
    for client in 0..CLIENTS {
        let base = scene.envoy.url("");
        clients.add((), move |(), round| {
            // A few requests of two clients pass through, each client's for a different reason.
            let path = match (client, round % 5) {
                (0, 0) => "/piped/_bulk?pipeline=nothing",
                (1, 0) => "/unknown/_bulk?require_alias=false&refresh=false&human&unheard=",
                _ => "/logs/_bulk",
            };
            let (url, first) = (format!("{base}{path}"), client * 1_000_000 + round * 7);
            async move {
                let result = load::write(&Client::new(), &url, first..first + 1 + client % 7).await;
                if path.contains("unheard") { Ok(()) } else { result }
            }
        });
    }
    let url = scene.envoy.url("/_bulk_reshuffle/");
    look_at(&tools, "live", &[("PAGE_URL", url.as_str())]).await?;
    look_at(&tools, "live_explorer", &[("PAGE_URL", url.as_str())]).await?;
    clients.end().await?;
    // When all requests are answered, the page must match Envoy's counters.
    look_at(&tools, "live_at_rest", &[("PAGE_URL", &url), ("STATS_URL", &scene.envoy.admin_url("/stats?format=json"))])
        .await?;
    scene.stop().await
}
