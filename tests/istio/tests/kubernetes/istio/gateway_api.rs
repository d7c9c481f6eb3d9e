//! A gateway of the Gateway API, by `components/gateway-api`.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{Manifests, Traffic};
use serde_json::{Value, json};

use super::{Mesh, Site};

/// Starts a gateway behind the Service of `examples/gateway`. Requests must be split, and the routes must have the
/// retries and time-outs that they have with Istio's own resources.
pub async fn split(site: &Site, overlay: &'static str) -> Result<String> {
    let name = &format!("{overlay}-gateway-api");
    let example = Manifests::read(&site.text("istio/examples/gateway/gateway.yaml")?)?;
    let service = example.all("Service").next().cloned().context("the example has no Service")?;
    let overlay = Mesh::overlay(site, overlay, |folder| folder.use_gateway_api(overlay))?.with_objects([service]);
    let mesh = Mesh::start_splitting(site, name, &overlay).await?;
    let proven = mesh.check_split(name).await?;
    check_routes(&mesh).await?;
    mesh.end().await?;
    Ok(format!("{proven}; the routes retry and time out as with a VirtualService"))
}

/// Checks that both routes have the shipped retries and time-outs.
pub async fn check_routes(mesh: &Mesh<'_>) -> Result<()> {
    const ROUTES: &str = "/config_dump?resource=dynamic_route_configs";
    let dump: Value = serde_json::from_str(&mesh.proxy.admin_text(ROUTES).await?)?;
    let configs = dump["configs"].as_array().context("no routes")?.iter().map(|one| &one["route_config"]);
    let routes = configs.flat_map(|one| one["virtual_hosts"][0]["routes"].as_array().into_iter().flatten());
    let routes: Vec<&Value> = routes.collect();
    for (name, idle) in [("bulk", "150s"), ("others", "0s")] {
        let named: Vec<&&Value> = routes.iter().filter(|route| route["name"] == name).collect();
        ensure!(!named.is_empty(), "no route {name} in {routes:?}");
        for route in named {
            let (action, retries) = (&route["route"], &route["route"]["retry_policy"]);
            ensure!(action["timeout"] == "0s" && action["idle_timeout"] == idle, "{route}");
            ensure!(retries["retry_on"] == "connect-failure" && retries["num_retries"] == 2, "{route}");
            ensure!(route["request_headers_to_remove"] == json!(["x-bulk-reshuffle-node"]), "{route}");
        }
    }
    Ok(())
}
