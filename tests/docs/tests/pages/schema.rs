//! The JSON schema of the configuration is up to date, and agrees with the code on what is valid.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use bulk_reshuffle::config::Config;
use bulk_reshuffle_docs::root;
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

const FILE: &str = "filter/configuration.schema.json";

/// The folders whose YAML files have configurations of the filter.
const SHIPPED: [&str; 5] = ["envoy", "envoy/parts", "istio/base", "examples/kubernetes", "examples/envoy-gateway"];

/// What the schema does not say, as the filter's messages have it: how two fields depend on each other, which texts are
/// templates, and how large a duration or a size may be.
const BEYOND: [&str; 11] = [
    "expected at most",
    "`address` and `addresses` need `header`",
    "`address` takes",
    "`upstream` takes",
    "set `addresses`",
    "not in `harmless_headers`",
    "found \"0s\"",
    "found \"0ms\"",
    "found \"2h\"",
    "found \"/a/..\"",
    "found \"/_bulk\"",
];

#[test]
fn the_schema_is_that_of_the_code() {
    let made = format!("{:#}\n", Config::schema());
    let file = root().join(FILE);
    if std::env::var_os("RENEW").is_some() {
        fs::write(file, made).unwrap();
    } else {
        assert!(fs::read_to_string(file).unwrap() == made, "{FILE} is out of date: RENEW=1 rewrites it");
    }
}

/// Returns whether the shipped schema accepts each of these values.
fn verdicts(values: &[Value]) -> Vec<bool> {
    let tools = Tools::find().unwrap();
    tools.folder("fastjsonschema").unwrap();
    let schema: Value = serde_json::from_str(&fs::read_to_string(root().join(FILE)).unwrap()).unwrap();
    let mut command = Command::new("python3");
    command.arg(root().join("tests/tools/validate.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut validator = command.spawn().unwrap();
    validator.stdin.take().unwrap().write_all(json!([schema, values]).to_string().as_bytes()).unwrap();
    let output = validator.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Appends all configurations of the filter in a YAML file: objects, or JSON as text.
fn configurations(value: &Value, to: &mut Vec<Value>) {
    match value {
        Value::Object(fields) if fields.get("coordinator").is_some_and(Value::is_string) => to.push(value.clone()),
        Value::Object(fields) => fields.values().for_each(|value| configurations(value, to)),
        Value::Array(values) => values.iter().for_each(|value| configurations(value, to)),
        Value::String(text) if text.trim_start().starts_with('{') => {
            if let Ok(value) = serde_json::from_str(text) {
                configurations(&value, to);
            }
        }
        _ => {}
    }
}

fn in_file(file: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap();
    documents.iter().for_each(|document| configurations(document, &mut found));
    found
}

#[test]
fn the_schema_accepts_every_shipped_configuration() {
    let mut found = Vec::new();
    for folder in SHIPPED {
        let before = found.len();
        for file in fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "yaml") {
                found.extend(in_file(&file));
            }
        }
        assert!(found.len() > before, "{folder} has no configuration");
    }
    for (value, accepted) in found.iter().zip(verdicts(&found)) {
        assert!(accepted, "{value}");
    }
}

/// Appends the path of every field in a schema, as a list of names. The name of a list ends with `[]`.
fn paths(schema: &Value, path: &[String], to: &mut Vec<Vec<String>>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let inner = [path, std::slice::from_ref(name)].concat();
        paths(field, &inner, to);
        paths(&field["items"], &[path, &[format!("{name}[]")]].concat(), to);
        to.push(inner);
    }
}

/// Returns a configuration in which only this field is set, and what is required beside it.
fn with(path: &[String], value: &Value) -> Value {
    let mut config = path.iter().rfold(value.clone(), |value, name| match name.strip_suffix("[]") {
        Some(list) => {
            let mut entry = json!({"pattern": "a", "missing_id": "pass"});
            entry.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            json!({list: [entry]})
        }
        None => json!({name: value}),
    });
    let fields = config.as_object_mut().unwrap();
    fields.entry("coordinator").or_insert("es".into());
    config
}

/// Returns values of which each field accepts some, and refuses others.
fn values() -> Vec<Value> {
    let texts = [
        "",
        "a",
        "A",
        "a b",
        "a\nb",
        "*",
        "0",
        "0s",
        "0ms",
        "5ms",
        "1.5s",
        "1m 30s",
        "2h",
        "50",
        "fast",
        "7x",
        "1kb",
        "1.5 KiB",
        "1e3",
        "1xb",
        "2gb",
        "/a",
        "/a/",
        "/a b",
        "/a/..",
        "/_bulk",
        "true",
        "observe",
        "other_zones",
        "node",
        "shard",
        "index",
        "direct",
        "make",
        "buffer",
        "maybe",
        "{name}",
        "{x}",
        ":path",
        "host",
        "x-node",
        "X-Node",
        "x-opaque-id",
        "x-forwarded-for",
        "x-envoy-original-dst-host",
        "x-proxy-user",
        "user-agent",
    ];
    let lists = texts.map(|text| json!([text]));
    let others = json!([
        null, true, false, 0, 1, 16, 17, 65535, 65536, -1, 1.5, [], [1], [null], [[]], {}, {"?": 1}, {"a": "b"}, {"a": 1},
        {"a b": "c"}, {"a": "b\n"}, {"header": "x-node"}, [{"pattern": "a"}], [{"pattern": "a", "enabled": true}],
        [{"missing_id": "pass"}], [{"pattern": "a", "missing_id": "pass", "shards": 1}],
    ]);
    [&texts.map(Value::from)[..], &lists, others.as_array().unwrap()].concat()
}

#[test]
fn the_schema_and_the_filter_accept_the_same_values_of_every_field() {
    let mut fields = Vec::new();
    paths(&Config::schema(), &[], &mut fields);
    assert!(fields.iter().any(|path| path.join(".") == "hold.interval"));
    assert!(fields.iter().any(|path| path.join(".") == "indices[].single_documents"));
    let values = values();
    let mut configs: Vec<Value> = fields.iter().flat_map(|path| values.iter().map(|value| with(path, value))).collect();
    configs.extend(values);
    configs.push(json!({"coordinator": "es", "holds": {}}));
    let own = configs.len();
    // Inputs that the fuzzer has found. Many have numbers that are too large.
    for file in fs::read_dir(root().join("tests/fuzz/corpus/config")).unwrap() {
        configs.extend(serde_json::from_slice::<Value>(&fs::read(file.unwrap().path()).unwrap()));
    }
    let (mut accepted, mut refused, mut different) = (0, 0, Vec::new());
    for (at, (config, is_valid)) in configs.iter().zip(verdicts(&configs)).enumerate() {
        match Config::read(config.to_string().as_bytes()) {
            Ok(_) if is_valid => accepted += 1,
            Ok(_) => different.push(format!("the schema refuses {config}")),
            Err(_) if !is_valid => refused += 1,
            Err(error) if at >= own || BEYOND.iter().any(|part| error.problem.contains(part)) => {}
            Err(error) => different.push(format!("the schema accepts {config}: {error}")),
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(accepted > 300 && refused > 2000, "{accepted} accepted, {refused} refused");
}
