//! The admin path, for those who may not ask.

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::yaml_of_page;
use hyper::Request;
use serde_json::json;

use crate::trial::{Cost, Plan};

const ADMIN: &str = "/_bulk_reshuffle";

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_path_believes_no_header_about_where_a_client_is() -> Result<()> {
    let page = yaml_of_page("envoy.filters.http.rbac")?.to_string();
    ensure!(page.contains("127.0.0.0"), "{page}");
    // The tests are at 127.0.0.1, so let that be elsewhere.
    let rules: serde_json::Value = serde_json::from_str(
        &page.replace("127.0.0.0", "203.0.113.0").replace("\"prefix_len\":8", "\"prefix_len\":24"),
    )?;
    let plan = Plan::new("the admin path from elsewhere, x-forwarded-for: an address that may")
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
