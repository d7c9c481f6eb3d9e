//! Clusters of operators: the values in the examples' comments match the objects that the operators create.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use bulk_reshuffle_istio::Folder;
use serde_json::{Map, Value, json};

#[test]
fn eck() -> Result<()> {
    check("eck", "elasticsearch.yaml")
}

#[test]
fn opensearch_operator() -> Result<()> {
    check("opensearch-operator", "opensearch.yaml")
}

fn check(example: &str, file: &str) -> Result<()> {
    let folder = Folder::shipped()?;
    let mut values = folder.values()?;
    let told = told(&folder.text(&format!("examples/{example}/{file}"))?)?;
    for (field, value) in told["elasticsearch"].as_object().context("the example's comment has no values")? {
        values["elasticsearch"][field] = value.clone();
    }
    folder.set_values(&values)?;
    let layout: Vec<Value> = serde_saphyr::from_multiple(&folder.text(&format!("examples/{example}/layout.yaml"))?)?;
    folder.add_component("sidecar-envoyfilter", "named-upstreams")?;
    let manifests = folder.manifests("sidecar-envoyfilter")?;
    let entries: Vec<&Value> = manifests.all("ServiceEntry").collect();
    let set = layout.iter().find(|one| one["kind"] == "StatefulSet").context("the layout has no StatefulSet")?;
    for index in 0..set["spec"]["replicas"].as_u64().unwrap() {
        let pod = format!("{}-{index}", set["metadata"]["name"].as_str().unwrap());
        let mut labels = set["spec"]["template"]["metadata"]["labels"].as_object().unwrap().clone();
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), json!(pod));
        let selecting = entries.iter().filter(|entry| selects(&entry["spec"]["workloadSelector"]["labels"], &labels));
        let hosts: BTreeSet<&str> = selecting.map(|entry| entry["spec"]["hosts"][0].as_str().unwrap()).collect();
        assert_eq!(hosts, BTreeSet::from(["any.es.internal", format!("{pod}.es.internal").as_str()]));
    }
    let routes = manifests.all("VirtualService").next().context("the overlay has no VirtualService")?;
    let service = routes["spec"]["hosts"][0].clone();
    let has_address = |one: &&Value| one["kind"] == "Service" && one["spec"]["clusterIP"] != "None";
    let with_address = layout.iter().find(has_address).context("the layout has no Service with an address")?;
    assert_eq!(service, format!("{}.search.svc.cluster.local", with_address["metadata"]["name"].as_str().unwrap()));
    assert_eq!(with_address["spec"]["ports"][0]["name"], "http");
    assert_eq!(with_address["spec"]["ports"][0]["port"], 9200);
    Ok(())
}

/// Returns the YAML in the comment at the top of an example.
fn told(example: &str) -> Result<Value> {
    let lines = example.lines().take_while(|line| line.starts_with('#')).filter_map(|line| line.strip_prefix("#   "));
    Ok(serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n"))?)
}

fn selects(selector: &Value, labels: &Map<String, Value>) -> bool {
    selector.as_object().unwrap().iter().all(|(label, value)| labels.get(label) == Some(value))
}
