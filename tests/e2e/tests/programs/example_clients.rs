//! The example clients: one small program for each language.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::Ordering;

use bulk_reshuffle_e2e::{ExampleClients, Recorded};
use bulk_reshuffle_stack::Distribution::Elasticsearch8;
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::execution::{self, text};
use crate::readme;
use crate::shared_scene::SharedScene;
use crate::shippers::{is_bad, refuse_on_demand};

/// The number of documents, enough for several requests of each program.
const DOCUMENTS: u64 = 3_000;

/// The number of documents in each request of the program with curl.
const IN_A_REQUEST: u64 = 1_000;

fn document(n: u64) -> Value {
    let number = if is_bad(n) { json!("many") } else { json!(n) };
    json!({"id": format!("book-{n}"), "n": number, "text": format!("{n:0350}")})
}

#[tokio::test(flavor = "multi_thread")]
async fn every_program_reports_failed_documents_and_retries_refused_ones() {
    // By default the filter itself retries such batches, so that clients rarely see a 429.
    let config = json!({"retry": {"attempts": 0}});
    let (scene, nodes) =
        SharedScene::start_recorded_in_front_of(Elasticsearch8, "example-clients", config, |to| to).await;
    let (folder, refuse) = (TempDir::new().unwrap(), refuse_on_demand(&nodes, &scene));
    let clients = ExampleClients::new(&Tools::find().unwrap(), folder.path(), env!("CARGO_TARGET_TMPDIR")).unwrap();
    let run = async |command: &str, api_key| {
        let shell = clients.shell(command, &scene.envoy.url(""), api_key).unwrap();
        execution::output(command, shell, Stdio::null()).await.unwrap()
    };
    let commands = readme::commands(&readme::folder("clients"));
    let languages: Vec<_> = commands.iter().map(|command| language(command)).collect();
    assert_eq!(languages, ["python", "javascript", "go", "java", "curl"]);
    for (command, language) in commands.iter().zip(languages) {
        let index = format!("books-{language}");
        let command = command.replacen(" books ", &format!(" {index} "), 1);
        scene.index(&index, json!({"number_of_shards": 5})).await;
        nodes.forget();
        let before = scene.counts().await;

        clients.write((0..DOCUMENTS).map(document)).unwrap();
        refuse.store(true, Ordering::Relaxed);
        let output = run(&command, Some("c2VjcmV0")).await;
        assert!(!refuse.load(Ordering::Relaxed), "nothing was refused");
        check_failures(language, &output);
        // The second run has only valid documents, so the program has no failure to report.
        clients.write((0..DOCUMENTS).filter(|n| !is_bad(*n)).map(document)).unwrap();
        let again = run(&command, None).await;
        assert!(again.status.success(), "{language}: {}{}", text(&again.stdout), text(&again.stderr));

        assert_eq!(scene.sources(&index).await, expected(), "{language}");
        let counted = scene.counts().await.since(&before);
        counted.check_split(language);
        assert!(counted.operations >= 2 * DOCUMENTS - 6, "{language}: {counted:?}");
        // The name of an authentication scheme is not case-sensitive.
        let key = |bulk: &Recorded| bulk.header("authorization").map(|key| key.replacen("APIKey", "ApiKey", 1));
        let keys: BTreeSet<_> = nodes.bulks().iter().map(key).collect();
        assert_eq!(keys, BTreeSet::from([None, Some("ApiKey c2VjcmV0".to_owned())]), "{language}");
    }
    scene.end().await;
}

fn language(command: &str) -> &'static str {
    let program = command.split_whitespace().next().unwrap();
    let known = ["python", "node", "go", "java", "curl"].into_iter().find(|name| program.starts_with(name));
    known.map_or_else(|| panic!("{command}"), |name| if name == "node" { "javascript" } else { name })
}

/// Checks that the program has reported each document that was not indexed, and no other one.
fn check_failures(language: &str, output: &Output) {
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{language}: {printed}{errors}");
    let bad = (0..DOCUMENTS).filter(|n| is_bad(*n));
    if language == "curl" {
        // This program prints the errors of each request, and leaves it to the reader to retry refused documents.
        // Invalid documents of the first request are reported as refused if their node refused its batch.
        let told: BTreeSet<u64> = bad.clone().filter(|n| errors.contains(&format!("'book-{n}'"))).collect();
        assert_eq!(errors.matches("document_parsing_exception").count(), told.len(), "{errors}");
        bad.filter(|n| *n >= IN_A_REQUEST).for_each(|n| assert!(told.contains(&n), "{n}: {errors}"));
        assert!(errors.contains("es_rejected_execution_exception"), "{errors}");
        return;
    }
    let told: BTreeSet<_> = errors.lines().filter(|line| line.starts_with("book-")).map(str::to_owned).collect();
    let expected: BTreeSet<_> = bad.map(|n| format!("book-{n} 400 document_parsing_exception")).collect();
    assert_eq!(told, expected, "{language}: {errors}");
    let counts = format!("{} indexed, {} failed\n", DOCUMENTS - told.len() as u64, told.len());
    assert_eq!(printed, counts, "{language}: {errors}");
}

/// Returns the expected documents by id.
fn expected() -> BTreeMap<String, Value> {
    let good = (0..DOCUMENTS).filter(|n| !is_bad(*n));
    good.map(|n| (format!("book-{n}"), document(n))).collect()
}

#[test]
fn the_programs_use_the_tested_releases() {
    let (tools, folder) = (Tools::find().unwrap(), readme::folder("clients"));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let json = |path: &Path| -> Value { serde_json::from_str(&read(path)).unwrap() };
    let requirement = read(&folder.join("python/requirements.txt"));
    let installed = tools.folder("elasticsearch-py-8").unwrap();
    let distribution = format!("{}.dist-info", requirement.trim().replace("==", "-"));
    assert!(installed.join(&distribution).is_dir(), "{distribution}");
    let package = "@elastic/elasticsearch";
    let installed = tools.folder("javascript-clients").unwrap().join("node_modules").join(package);
    let named = &json(&folder.join("javascript/package.json"))["dependencies"][package];
    assert_eq!(*named, json(&installed.join("package.json"))["version"]);
    // Go reads go.mod itself, and can use only fetched modules.
    let java = read(&folder.join("README.md"));
    let jars = fs::read_dir(tools.folder("elasticsearch-java").unwrap()).unwrap();
    let jars: Vec<_> = jars.map(|jar| jar.unwrap().file_name().into_string().unwrap()).collect();
    for artifact in ["elasticsearch-java", "jackson-databind"] {
        let (_, version) = java.split_once(&format!(":{artifact}:")).expect(artifact);
        let version: String = version.chars().take_while(|char| char.is_ascii_digit() || *char == '.').collect();
        assert!(jars.contains(&format!("{artifact}-{version}.jar")), "{artifact} {version}: {jars:?}");
    }
}
