//! The admin path, for clients without permission.

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::yaml_of_page;
use hyper::Request;
use serde_json::json;

use crate::trial::{Cost, Plan};

const ADMIN: &str = "/_bulk_reshuffle";

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_path_ignores_headers_about_the_clients_address() -> Result<()> {
    let page = yaml_of_page("envoy.filters.http.rbac")?.to_string();
    ensure!(page.contains("127.0.0.0"), "{page}");
    // The tests connect from 127.0.0.1, so the rule must permit another network.
    let rules: serde_json::Value = serde_json::from_str(
        &page.replace("127.0.0.0", "203.0.113.0").replace("\"prefix_len\":8", "\"prefix_len\":24"),
    )?;
    let plan = Plan::new("the admin path from another network, with a permitted address in x-forwarded-for")
        .config(json!({"admin_path": ADMIN}));
    let plan = plan.filters(rules["http_filters"].clone());
    plan.run(async |trial| {
        for path in ["", "/", "/status", "/state", "/sample", "/explain"] {
            let request = Request::get(trial.scene.envoy.url(&format!("{ADMIN}{path}")));
            let request = request.header("x-forwarded-for", "203.0.113.7").body(Default::default())?;
            let answer = trial.scene.client.send(request).await?;
            ensure!(answer.status == 403, "{ADMIN}{path}: {}", answer.status);
        }
        Ok(Cost { wire: 0, got: "403".into() })
    })
    .await
}
