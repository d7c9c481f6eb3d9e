//! Tests of the stack with real programs: three nodes, and plain Envoy in front of them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Lifetime, Tools, port, stop_left_running, wait,
};
use serde_json::json;

#[tokio::test]
async fn nodes_and_envoy_start_serve_and_stop() -> Result<()> {
    let tools = Tools::find()?;
    let run_dir = tempfile::tempdir()?;
    let client = Client::new();

    let started = Instant::now();
    let mut cluster = Cluster::start(&tools, ClusterOptions::new(run_dir.path())).await?;
    println!("three nodes after {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(60));
    let mut options = EnvoyOptions::new(run_dir.path()).in_front_of(&cluster);
    options.filter = FilterConfig::Removed;
    let envoy = Envoy::start(&tools, options).await?;

    let settings = json!({"settings": {"number_of_shards": 3, "number_of_replicas": 1}});
    client.put_json(&envoy.url("/things"), &settings).await?.ok()?;
    cluster.wait_green(Duration::from_secs(30)).await?;
    let bulk = "{\"index\":{\"_id\":\"1\"}}\n{\"text\":\"x\"}\n";
    let answer = client.post_ndjson(&envoy.url("/things/_bulk"), bulk).await?.ok()?.json()?;
    assert_eq!(answer["items"][0]["index"]["status"], 201);
    let nodes = client.get_json(&format!("{}/_nodes", cluster.base_url(2)?)).await?;
    let mut zones: Vec<_> =
        nodes["nodes"].as_object().unwrap().values().map(|node| &node["attributes"]["zone"]).collect();
    zones.sort_by_key(|zone| zone.to_string());
    assert_eq!(zones, ["z0", "z1", "z2"]);
    assert!(envoy.counter("cluster.es.upstream_rq_total").await? >= 2);

    cluster.pause(1)?;
    let quick = client.with_timeout(Duration::from_millis(300));
    // A thread that is running stops a moment later.
    let url = format!("{}/", cluster.base_url(1)?);
    let is_silent = async || Ok(quick.get(&url).await.is_err().then_some(()));
    wait::until(Duration::from_secs(10), "the node has stopped", is_silent).await?;
    cluster.resume(1)?;
    client.get_json(&format!("{}/", cluster.base_url(1)?)).await?;

    cluster.kill(2)?;
    assert!(client.get(&format!("{}/", cluster.base_url(2)?)).await.is_err());
    cluster.restart(2).await?;
    cluster.wait_green(Duration::from_secs(60)).await?;
    assert_eq!(client.get_json(&format!("{}/things/_count", cluster.base_url(2)?)).await?["count"], 1);

    let addresses: Vec<_> = cluster.addresses().map(|(_, address)| address.port()).collect();
    let listener = envoy.addr().port();
    let stopping = Instant::now();
    envoy.stop().await?;
    cluster.stop().await?;
    println!("all stopped after {:?}", stopping.elapsed());
    for port in addresses.into_iter().chain([listener]) {
        port::ensure_free(port)?;
    }
    Ok(())
}

#[tokio::test]
async fn the_error_names_a_port_in_use() -> Result<()> {
    let tools = Tools::find()?;
    let run_dir = tempfile::tempdir()?;
    let port = port::free()?;
    let _taken = std::net::TcpListener::bind(port::loopback(port))?;
    let mut options = plain_envoy(run_dir.path());
    options.port = Some(port);
    let error = Envoy::start(&tools, options).await.unwrap_err().to_string();
    assert!(error.contains(&port.to_string()), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_invalid_configuration_fails_with_envoys_own_message() -> Result<()> {
    let tools = Tools::find()?;
    let run_dir = tempfile::tempdir()?;
    let options = |value| {
        plain_envoy(run_dir.path()).edit(move |config| {
            config["admin"]["address"]["socket_address"]["port_value"] = value;
            Ok(())
        })
    };
    Envoy::validate(&tools, options(json!(1234))).await?;
    let refused = Envoy::validate(&tools, options(json!("x"))).await.unwrap_err().to_string();
    assert!(refused.contains("port_value"), "{refused}");
    let failed = format!("{:#}", Envoy::start(&tools, options(json!("x"))).await.unwrap_err());
    assert!(failed.contains("port_value"), "{failed}");
    Ok(())
}

#[tokio::test]
async fn a_node_that_does_not_start_shows_its_log() -> Result<()> {
    let tools = Tools::find()?;
    let run_dir = tempfile::tempdir()?;
    let mut options = ClusterOptions::new(run_dir.path());
    options.nodes = 1;
    options.settings.insert("no.such.setting".into(), json!(1));
    let error = format!("{:#}", Cluster::start(&tools, options).await.unwrap_err());
    assert!(error.contains("no.such.setting"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_process_outlives_the_thread_that_started_it() -> Result<()> {
    let run_dir = tempfile::tempdir()?;
    let options = plain_envoy(run_dir.path());
    let start = || tokio::runtime::Runtime::new()?.block_on(Envoy::start(&Tools::find()?, options));
    let envoy = std::thread::scope(|scope| scope.spawn(start).join()).unwrap()?;
    Client::new().get(&envoy.admin_url("/ready")).await?.ok()?;
    envoy.process().ensure_running()?;
    envoy.stop().await
}

#[tokio::test]
async fn processes_left_running_are_found_and_stopped() -> Result<()> {
    let run_dir = tempfile::tempdir()?;
    let mut options = plain_envoy(run_dir.path());
    options.lifetime = Lifetime::Independent;
    let envoy = Envoy::start(&Tools::find()?, options).await?;
    let port = envoy.addr().port();
    envoy.leave_running();
    assert!(port::ensure_free(port).is_err());
    let stopped = stop_left_running(run_dir.path()).await?;
    assert_eq!(stopped.iter().map(|process| process.name.as_str()).collect::<Vec<_>>(), ["envoy"]);
    port::ensure_free(port)?;
    assert!(stop_left_running(run_dir.path()).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_shared_envoy_has_nothing_of_the_test_before() -> Result<()> {
    const REQUESTS: &str = "http.elasticsearch.downstream_rq_total";
    let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
    // No other test has this setting, and so none of its Envoys.
    let options = || EnvoyOptions { drain_at_once: true, ..plain_envoy(run_dir.path()).shared() };
    let first = Envoy::start(&tools, options()).await?;
    let answer = Client::new().get(&first.url("/")).await?;
    assert_eq!(answer.status, 503, "nothing listens on the upstream's port");
    assert_eq!(first.counter(REQUESTS).await?, 1);
    let (pid, address, log) = (first.process().pid(), first.addr(), first.log());
    assert!(log.contains("add/update listener"), "{log}");
    first.stop().await?;

    let second = Envoy::start(&tools, options()).await?;
    assert_eq!(second.process().pid(), pid);
    assert_eq!(second.counter(REQUESTS).await?, 0);
    assert!(!second.log().contains(&log), "the log has lines of the test before");
    port::ensure_free(address.port())?;
    // While it is in use, and with other settings, there is another one.
    for options in [options(), EnvoyOptions { concurrency: 2, ..options() }] {
        let other = Envoy::start(&tools, options).await?;
        assert_ne!(other.process().pid(), pid);
    }
    second.stop().await
}

#[tokio::test]
async fn a_configuration_that_a_shared_envoy_rejects_is_an_error() -> Result<()> {
    let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
    let options = plain_envoy(run_dir.path()).shared().edit(|config| {
        config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["name"] = json!("");
        Ok(())
    });
    let error = format!("{:#}", Envoy::start(&tools, options).await.unwrap_err());
    assert!(error.contains("rejected") && error.contains("Name"), "{error}");
    Ok(())
}

fn plain_envoy(run_dir: &Path) -> EnvoyOptions {
    let mut options = EnvoyOptions::new(run_dir).cluster("es", [port::loopback(9)]);
    options.filter = FilterConfig::Removed;
    options
}
