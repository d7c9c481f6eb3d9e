//! The configurations of the pages, in front of a cluster with other names and ports than the pages': `README.md` and
//! `envoy/own-cluster.md`.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::envoy_config::{clusters, http_filters};
use bulk_reshuffle_e2e::{
    ClusterScript, FakeCluster, Index, Reaction, block_of_page, check_filter, replace_file, yaml_of_page,
};
use bulk_reshuffle_stack::{Client, Envoy, EnvoyOptions, Tools, port, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(15);
const PAGE: &str = "envoy/own-cluster.md";

/// The names of the nodes. The last one is not in the cluster at first.
const NAMES: [&str; 4] = ["data-hot-a", "data-hot-b", "data-warm-a", "data-warm-b"];

/// The requests of each kind while a node is down, as many as the clients of a small listener send concurrently.
const CONCURRENT: usize = 30;

/// A cluster, and an Envoy with the configuration of a page.
struct Own {
    cluster: FakeCluster,
    envoy: Envoy,
    client: Client,
    _folder: TempDir,
}

/// Returns a cluster of three nodes, with an index on each of them and the address of a fourth one.
async fn cluster() -> Result<FakeCluster> {
    let script = ClusterScript::new(3).named(&NAMES);
    let script = script.index(Index::new("books", [0, 1, 2])).index(Index::new("first-steps", [0, 1, 2]));
    FakeCluster::start_at(script, port::free_ports(4)?.into_iter().map(port::loopback).collect()).await
}

/// Returns the addresses of the nodes that are in the cluster at first.
fn first_nodes(cluster: &FakeCluster) -> Vec<SocketAddr> {
    cluster.addresses().take(3).collect()
}

/// Replaces the hosts of a list of endpoints.
fn set_hosts(assignment: &mut Value, hosts: &[SocketAddr]) -> Result<()> {
    let shipped = assignment.pointer_mut("/endpoints/0/lb_endpoints").context("no endpoints")?;
    let shipped = shipped.as_array_mut().context("no list of endpoints")?;
    let model = shipped.first().cloned().context("no endpoint")?;
    *shipped = hosts
        .iter()
        .map(|host| {
            let mut endpoint = model.clone();
            let address = endpoint.pointer_mut("/endpoint/address/socket_address").context("no address")?;
            *address = json!({"address": host.ip(), "port_value": host.port()});
            Ok(endpoint)
        })
        .collect::<Result<_>>()?;
    Ok(())
}

/// Merges fields into an object, recursively; the first elements of two lists too.
fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            fields.into_iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
        }
        (Value::Array(into), Value::Array(fields)) if !into.is_empty() => {
            into.iter_mut().zip(fields).for_each(|(into, value)| merge(into, value));
        }
        (into, value) => *into = value,
    }
}

impl Own {
    /// Starts Envoy with this configuration, at other ports than the page's.
    async fn start(cluster: FakeCluster, folder: TempDir, mut config: Value) -> Result<Self> {
        let (port, admin_port) = (port::free()?, port::free()?);
        let listener = config.pointer_mut("/static_resources/listeners/0/address/socket_address/port_value");
        *listener.context("no listener")? = port.into();
        *config.pointer_mut("/admin/address/socket_address/port_value").context("no administration port")? =
            admin_port.into();
        let (tools, file) = (Tools::find()?, folder.path().join("envoy.json"));
        tools.wasm()?;
        fs::write(&file, config.to_string())?;
        let options =
            EnvoyOptions { port: Some(port), admin_port: Some(admin_port), ..EnvoyOptions::new(folder.path()) };
        let envoy = Envoy::start_file(&tools, &file, options).await?;
        envoy.wait_for_state(LIMIT).await?;
        Ok(Self { cluster, envoy, client: Client::new(), _folder: folder })
    }

    /// Starts Envoy with the first page's configuration.
    async fn of_first_page() -> Result<Self> {
        let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
        let mut config = first_page()?;
        set_hosts(&mut clusters(&mut config)[0]["load_assignment"], &first_nodes(&cluster))?;
        Self::start(cluster, folder, config).await
    }

    /// Writes a book on each node, and checks that each has received its own.
    async fn check_split(&self, nodes: &[usize]) -> Result<()> {
        self.cluster.forget();
        let answer = self.client.post_ndjson(&self.envoy.url("/_bulk"), self.cluster.write_books(0)).await?;
        self.cluster.check_books(0, &answer)?;
        for node in nodes {
            ensure!(self.cluster.only_bulk_at(*node)?.text() == self.cluster.write_book(*node, 0)?);
        }
        Ok(())
    }

    /// Waits until the status has these results of the checks, in the order of the nodes' names.
    async fn wait_for_checks(&self, expected: &[Option<&str>]) -> Result<()> {
        let (url, expected) = (self.envoy.url("/_bulk_reshuffle/status"), json!(expected));
        wait::until(LIMIT, &format!("the checks result in {expected}"), async || {
            let status = self.client.get_json(&url).await?;
            let nodes = status["nodes"].as_array().context("no nodes")?;
            let found: Vec<&Value> = nodes.iter().map(|node| &node["check"]["result"]).collect();
            Ok((json!(found) == expected).then_some(()))
        })
        .await
    }

    async fn finish(self) -> Result<()> {
        check_filter(&self.envoy).await?;
        self.envoy.stop().await
    }
}

fn first_page() -> Result<Value> {
    yaml_of_page("README.md", "static_resources")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_pages_configuration_splits_and_the_commands_show_it() -> Result<()> {
    let own = Own::of_first_page().await?;
    own.check_split(&[0, 1, 2]).await?;
    let commands = block_of_page("README.md", "console", "first-steps")?;
    let mut is_open = false;
    let (script, shown): (Vec<&str>, Vec<&str>) = commands.lines().partition(|line| {
        let is_command = is_open || line.starts_with("$ ");
        is_open = is_command && line.ends_with('|');
        is_command
    });
    let script = script.join("\n").replace("$ ", "").replace("127.0.0.1:9200", &own.envoy.addr().to_string());
    let output = tokio::task::spawn_blocking(move || Command::new("bash").args(["-ec", &script]).output()).await??;
    let printed = String::from_utf8_lossy(&output.stdout);
    // The test has sent another request, and a scripted node answers the first command in its own way.
    let shown = shown[1..].concat().replace("merged\":1", "merged\":2");
    let shown = (0..3).fold(shown, |shown, node| shown.replace(&format!("es-{node}"), NAMES[node]));
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(printed.replace('\n', "").ends_with(&shown), "{printed}{errors}\nexpected: {shown}");
    // The status has made all counters appear.
    let late = own.envoy.stats_with("batches_late_total").await?;
    assert_eq!(late.values().collect::<Vec<_>>(), [&0; 4], "{late:?}");
    own.finish().await
}

/// A node is killed, and requests follow that no earlier connection can tell about.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_pages_configuration_survives_a_node_that_is_down() -> Result<()> {
    let mut own = Own::of_first_page().await?;
    own.cluster.take_down(1).await?;
    let down = own.cluster.addresses().nth(1).context("no node")?;
    wait::until(LIMIT, "Envoy closes its connections to a node that is down", async || {
        Ok((own.envoy.connections_to(down).await? == 0).then_some(()))
    })
    .await?;
    let body = own.cluster.write_books(0);
    for path in ["/_bulk?pipeline=p", "/_bulk"] {
        let answers: Vec<_> = (0..CONCURRENT)
            .map(|_| {
                let (client, url, body) = (own.client.clone(), own.envoy.url(path), body.clone());
                tokio::spawn(async move { client.post_ndjson(&url, body).await })
            })
            .collect();
        let mut statuses = BTreeMap::new();
        for answer in answers {
            let answer = answer.await??;
            *statuses.entry(answer.status.as_u16()).or_insert(0) += 1;
            own.cluster.check_books(0, &answer).with_context(|| format!("{path}: {statuses:?}"))?;
        }
        assert_eq!(statuses, [(200, CONCURRENT)].into(), "{path}");
    }
    let merged = own.envoy.counter("wasmcustom.bulk_reshuffle_requests_total.outcome.merged").await?;
    assert_eq!(merged, CONCURRENT as u64);
    own.finish().await
}

/// Sets the interval of polls, so that a test need not wait for the default one.
fn poll_often(config: &mut Value) -> Result<()> {
    set_filter_config(config, |fields| fields["cluster_state"] = json!({"refresh": "100ms"}))
}

fn set_filter_config(config: &mut Value, change: impl FnOnce(&mut Value)) -> Result<()> {
    let filter = http_filters(config).iter_mut().find_map(|filter| filter.pointer_mut(CONFIGURATION));
    let text = filter.context("no filter")?;
    let mut fields = serde_json::from_str(text.as_str().context("no text")?)?;
    change(&mut fields);
    *text = json!(fields.to_string());
    Ok(())
}

const CONFIGURATION: &str = "/typed_config/config/configuration/value";

/// Sets the path of the file in a source of resources.
fn set_path(source: &mut Value, path: &Path) -> Result<()> {
    *source.pointer_mut("/path_config_source/path").context("no path")? = json!(path);
    Ok(())
}

/// Lets a node join and get a primary, and another one leave, while Envoy runs. `set` lists these nodes in Envoy's file,
/// for which Envoy has metrics of this prefix.
async fn check_that_nodes_come_and_go(
    mut own: Own,
    set: impl Fn(&[usize]) -> Result<()>,
    (file, prefix): (&Path, &str),
) -> Result<()> {
    const RIGHT: Option<&str> = Some("right");
    own.check_split(&[0, 1, 2]).await?;
    own.wait_for_checks(&[RIGHT; 3]).await?;
    // A node without primaries, such as a dedicated master, need not be in the file.
    own.cluster.change(ClusterScript::add_node);
    own.wait_for_checks(&[RIGHT, RIGHT, RIGHT, None]).await?;
    own.check_split(&[0, 1, 2]).await?;

    // A node with primaries should be: until then, another one forwards its operations.
    let move_primary =
        |node| own.cluster.change(|script| script.index_mut("books").unwrap().move_primary(2, Some(node)));
    move_primary(3);
    let url = own.envoy.url("/_bulk_reshuffle/status");
    wait::until(LIMIT, "the status names the fault", async || {
        let result = own.client.get_json(&url).await?["nodes"][3]["check"]["result"].clone();
        Ok(["other_node", "no_upstream"].iter().any(|fault| result == **fault).then_some(()))
    })
    .await?;
    own.check_split(&[]).await?;

    set(&[0, 1, 2, 3])?;
    own.wait_for_checks(&[RIGHT, RIGHT, RIGHT, RIGHT]).await?;
    own.check_split(&[0, 1, 3]).await?;

    set(&[0, 1, 3])?;
    let hosts = async || own.envoy.counter("cluster.es.membership_total").await;
    wait::until(LIMIT, "Envoy has three nodes", async || Ok((hosts().await? == 3).then_some(()))).await?;
    own.cluster.take_down(2).await?;
    for _ in 0..3 {
        own.check_split(&[0, 1, 3]).await?;
        let searched = own.client.get(&own.envoy.url("/_search")).await?;
        assert_eq!(searched.status.as_u16(), 200);
    }

    replace_file(file, "resources: [".into())?;
    wait::until(LIMIT, "Envoy refuses the file", async || {
        let refused = own.envoy.stats_with(&format!("^{prefix}.update_(failure|rejected)$")).await?;
        Ok((refused.values().sum::<u64>() > 0).then_some(()))
    })
    .await?;
    own.check_split(&[0, 1, 3]).await?;
    own.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_and_go_in_a_file_of_one_cluster() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let mut config = first_page()?;
    poll_often(&mut config)?;
    let upstream = clusters(&mut config)[0].as_object_mut().context("no upstream")?;
    upstream.remove("load_assignment").context("no list of nodes")?;
    merge(&mut config, yaml_of_page(PAGE, "eds_cluster_config")?);
    let file = folder.path().join("nodes.yaml");
    set_path(&mut clusters(&mut config)[0]["eds_cluster_config"]["eds_config"], &file)?;

    let shipped = yaml_of_page(PAGE, "ClusterLoadAssignment")?;
    let addresses: Vec<_> = cluster.addresses().collect();
    let set = |nodes: &[usize]| {
        let mut list = shipped.clone();
        set_hosts(&mut list["resources"][0], &nodes.iter().map(|node| addresses[*node]).collect::<Vec<_>>())?;
        replace_file(&file, list.to_string())
    };
    set(&[0, 1, 2])?;
    check_that_nodes_come_and_go(Own::start(cluster, folder, config).await?, set, (&file, "cluster.es")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_and_go_in_a_file_of_their_clusters() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let mut config = shipped("envoy.yaml")?;
    poll_often(&mut config)?;
    set_filter_config(&mut config, |fields| fields["admin_path"] = json!("/_bulk_reshuffle"))?;
    let resources = config["static_resources"].as_object_mut().context("no resources")?;
    resources.remove("clusters").context("no clusters")?;
    merge(&mut config, yaml_of_page(PAGE, "cds_config")?);
    let file = folder.path().join("clusters.yaml");
    set_path(&mut config["dynamic_resources"]["cds_config"], &file)?;

    let part = shipped("parts/clusters.yaml")?;
    let addresses: Vec<_> = cluster.addresses().collect();
    let set = |nodes: &[usize]| {
        let mut file_of_all = part.clone();
        let list = file_of_all["resources"].as_array_mut().context("no list")?;
        list.truncate(2);
        let model = list.pop().context("no cluster of a node")?;
        set_hosts(&mut list[0]["load_assignment"], &nodes.iter().map(|node| addresses[*node]).collect::<Vec<_>>())?;
        for node in nodes {
            let mut of_node = model.clone();
            of_node["name"] = json!(NAMES[*node]);
            of_node["load_assignment"]["cluster_name"] = json!(NAMES[*node]);
            set_hosts(&mut of_node["load_assignment"], &[addresses[*node]])?;
            list.push(of_node);
        }
        replace_file(&file, file_of_all.to_string())
    };
    set(&[0, 1, 2])?;
    check_that_nodes_come_and_go(Own::start(cluster, folder, config).await?, set, (&file, "cluster_manager.cds")).await
}

fn shipped(name: &str) -> Result<Value> {
    let path = Tools::find()?.root.join("envoy").join(name);
    Ok(serde_saphyr::from_str(&fs::read_to_string(path)?)?)
}

/// Envoy reaches a service at one address, which is none of its nodes' own.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_addressable_nodes_gets_merged_requests_that_are_not_split() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let mut config = first_page()?;
    set_hosts(&mut clusters(&mut config)[0]["load_assignment"], &first_nodes(&cluster)[..1])?;
    let fields = serde_json::from_str(&block_of_page(PAGE, "json", "\"only\"")?)?;
    set_filter_config(&mut config, |config| *config = fields)?;
    let own = Own::start(cluster, folder, config).await?;
    own.cluster.forget();
    let gate = own.cluster.hold();
    let write = |number: usize| {
        let (client, url) = (own.client.clone(), own.envoy.url("/_bulk"));
        let body = own.cluster.write_books(number);
        (number, tokio::spawn(async move { client.post_ndjson(&url, body).await }))
    };
    let mut answers = vec![write(0)];
    own.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    answers.extend((1..4).map(write));
    let operations = async || own.envoy.counter("wasmcustom.bulk_reshuffle_operations_total").await;
    wait::until(LIMIT, "the filter has all requests", async || Ok((operations().await? == 12).then_some(()))).await?;
    gate.open();
    for (number, answer) in answers {
        own.cluster.check_books(number, &answer.await??)?;
    }
    let batches: Vec<_> = own.cluster.bulks_at(0).iter().map(|batch| batch.text().lines().count()).collect();
    assert_eq!(batches, [6, 18], "lines of the first request, and of the three others");
    own.wait_for_checks(&[None; 3]).await?;
    let unrouted = own.envoy.counter("wasmcustom.bulk_reshuffle_operations_unrouted_total.reason.upstream").await?;
    assert_eq!(unrouted, 12);
    own.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_off_checks_its_upstreams_until_the_cluster_switches_it_on() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let mut config = first_page()?;
    set_hosts(&mut clusters(&mut config)[0]["load_assignment"], &first_nodes(&cluster))?;
    poll_often(&mut config)?;
    set_filter_config(&mut config, |fields| fields["enabled"] = json!(false))?;
    let own = Own::start(cluster, folder, config).await?;
    own.wait_for_checks(&[Some("right"); 3]).await?;
    let write = async || {
        let answer = own.client.post_ndjson(&own.envoy.url("/_bulk"), own.cluster.write_books(0)).await?;
        own.cluster.check_books(0, &answer)
    };
    let counted = async |outcome: &str| {
        own.envoy.counter(&format!("wasmcustom.bulk_reshuffle_requests_total.outcome.{outcome}")).await
    };
    write().await?;
    let off = "passed_through.reason.switched_off";
    wait::until(LIMIT, "the request counts", async || Ok((counted(off).await? == 1).then_some(()))).await?;
    let on = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": {"enabled": "true"}}}}});
    own.cluster.react_to_state_queries(move |request| {
        (request.path() == "/_cluster/settings").then(|| Reaction::raw(on.to_string()))
    });
    // The filter reads the settings when the state's version has changed.
    own.cluster.change(|_| ());
    wait::until(LIMIT, "a request is split", async || {
        write().await?;
        Ok((counted("merged").await? > 0).then_some(()))
    })
    .await?;
    own.check_split(&[0, 1, 2]).await?;
    own.finish().await
}
