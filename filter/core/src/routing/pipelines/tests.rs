use serde_json::{Value, json};

use super::{Definitions, Harmless, Pipelines};
use crate::json::JsonCursor;

/// Returns the verdicts on these pipelines, read in steps of a few bytes.
fn verdicts(pipelines: &Value) -> Pipelines {
    let pipelines: Vec<Value> =
        pipelines.as_object().unwrap().iter().map(|(id, config)| json!({"id": id, "config": config})).collect();
    let state = json!({"cluster_name": "c", "metadata": {"ingest": {"pipeline": pipelines}}});
    read(&state, 10)
}

fn read(state: &Value, step: usize) -> Pipelines {
    let mut cursor = JsonCursor::new(state.to_string().into_bytes()).unwrap();
    let mut definitions = Definitions::default();
    while !definitions.read(&mut cursor, step).unwrap() {}
    definitions.into_verdicts()
}

/// Returns whether a pipeline of one processor may read the id, or the reason why it is not harmless.
fn verdict(processor: Value) -> Result<bool, String> {
    let all = verdicts(&json!({"p": {"processors": [processor]}}));
    match all.verdict("p").unwrap() {
        Ok(Harmless { reads_id }) => Ok(*reads_id),
        Err(why) => Err(why.to_string()),
    }
}

fn reason(processor: Value) -> String {
    verdict(processor.clone()).expect_err(&processor.to_string())
}

#[test]
fn processors_with_fixed_targets_are_harmless() {
    for processor in [
        json!({"set": {"field": "@timestamp", "value": "{{_ingest.timestamp}}", "override": false}}),
        json!({"set": {"field": "a._id_of_b", "copy_from": "b.c", "if": "ctx.a == null", "tag": "_id"}}),
        json!({"remove": {"field": ["a", "_tmp.b"], "ignore_missing": true, "ignore_failure": true}}),
        json!({"rename": {"field": "a", "target_field": "b"}}),
        json!({"date": {"field": "_ingest.timestamp", "formats": ["ISO8601"]}}),
        json!({"grok": {"field": "message", "patterns": ["%{IP:client.ip} %{DATA:user_id}"], "pattern_definitions": {"X": "(?<x>.)"}}}),
        json!({"dissect": {"field": "message", "pattern": "%{a} %{+b} %{?c->}"}}),
        json!({"csv": {"field": "m", "target_fields": ["a", "b.c"]}}),
        json!({"json": {"field": "m"}}),
        json!({"json": {"field": "m", "target_field": "n", "add_to_root": false}}),
        json!({"kv": {"field": "m", "target_field": "n", "field_split": " ", "value_split": "="}}),
        json!({"foreach": {"field": "list", "processor": {"lowercase": {"field": "_ingest._value.name"}}}}),
        json!({"fingerprint": {"fields": ["a", "b"]}}),
        json!({"user_agent": {"field": "agent"}}),
        json!({"drop": {"if": "ctx.level == 'debug' || ctx?.a?.b > 3 || ctx.containsKey('c') || ctx[\"d\"] != null"}}),
        json!({"fail": {"message": "no {{ a.b }}", "on_failure": [{"set": {"field": "e", "value": 1}}]}}),
    ] {
        assert_eq!(verdict(processor.clone()), Ok(false), "{processor}");
    }
}

#[test]
fn a_pipeline_that_may_write_metadata_is_not_harmless() {
    for (culprit, processor, problem) in [
        ("set", json!({"set": {"field": "_id", "value": "x"}}), "may write `_id`"),
        ("set", json!({"set": {"field": "_source._index", "value": "x"}}), "may write `_source._index`"),
        ("set", json!({"set": {"field": "._id", "value": "x"}}), "may write `._id`"),
        ("rename", json!({"rename": {"field": "_routing", "target_field": "b"}}), "may write `_routing`"),
        ("remove", json!({"remove": {"field": ["a", "_version"]}}), "may write `_version`"),
        ("remove", json!({"remove": {"keep": ["a"]}}), "has the unknown option `keep`"),
        ("append", json!({"append": {"field": "{{a}}", "value": 1}}), "takes the name of a field from the document"),
        ("lowercase", json!({"lowercase": {"field": 7}}), "has a target that is not a text"),
        ("script", json!({"script": {"source": "ctx.a = 1"}}), "may write any field"),
        ("reroute", json!({"reroute": {}}), "may write any field"),
        ("json", json!({"json": {"field": "m", "add_to_root": true}}), "takes the names of fields from the document"),
        ("kv", json!({"kv": {"field": "m"}}), "takes the names of fields from the document"),
        ("dot_expander", json!({"dot_expander": {"field": "*"}}), "takes the names of fields from the document"),
        (
            "dissect",
            json!({"dissect": {"field": "m", "pattern": "%{*a} %{&a}"}}),
            "takes the name of a field from the document, or writes metadata",
        ),
        (
            "dissect",
            json!({"dissect": {"field": "m", "pattern": "%{+_id}"}}),
            "takes the name of a field from the document, or writes metadata",
        ),
        (
            "grok",
            json!({"grok": {"field": "m", "patterns": ["%{DATA:_index}"]}}),
            "has a capture with the name of metadata",
        ),
        (
            "grok",
            json!({"grok": {"field": "m", "patterns": ["%{X}"], "pattern_definitions": {"X": "(?<_id>.)"}}}),
            "has a capture with the name of metadata",
        ),
        ("pipeline", json!({"pipeline": {"name": "{{a}}"}}), "takes the name of a pipeline from the document"),
        (
            "set",
            json!({"foreach": {"field": "a", "processor": {"set": {"field": "_id", "value": 1}}}}),
            "may write `_id`",
        ),
        ("script", json!({"fail": {"message": "", "on_failure": [{"script": {}}]}}), "may write any field"),
        (
            "lowercase",
            json!({"lowercase": {"field": "a", "processor": {"drop": {}}}}),
            "has the unknown option `processor`",
        ),
    ] {
        assert_eq!(reason(processor), format!("the processor `{culprit}` {problem}"));
    }
    for processor in [json!({"set": {"field": "a", "value": 1}, "drop": {}}), json!("drop"), json!({"drop": []})] {
        assert_eq!(reason(processor), "a processor is not an object with one key");
    }
    let long = reason(json!({"x".repeat(1000): {}}));
    assert_eq!(long.len(), 200);
}

#[test]
fn the_parts_of_a_pipeline_are_checked() {
    let all = verdicts(&json!({
        "empty": {},
        "told": {"description": "d", "version": 3, "_meta": {"a": 1}, "deprecated": true, "modified_date_millis": 7, "processors": []},
        "recovering": {"processors": [], "on_failure": [{"set": {"field": "_index", "value": "failed-{{ _index }}"}}]},
        "flexible": {"processors": [], "field_access_pattern": "flexible"},
        "newer": {"processors": [], "effects": []},
        "odd": {"processors": {"drop": {}}},
    }));
    let reason = |name: &str| all.verdict(name).unwrap().as_ref().err().map(ToString::to_string);
    assert_eq!((reason("empty"), reason("told")), (None, None));
    assert_eq!(reason("recovering").unwrap(), "the processor `set` may write `_index`");
    assert_eq!(reason("flexible").unwrap(), "it has an access pattern that the filter does not know");
    assert_eq!(reason("newer").unwrap(), "it has the unknown part `effects`");
    assert_eq!(reason("odd").unwrap(), "it is not a list of processors");
    assert_eq!(all.verdict("none"), None);
    for none in [json!({}), json!({"metadata": {}}), json!({"metadata": {"ingest": {}}})] {
        assert_eq!(read(&none, 1), Pipelines::default());
    }
}

#[test]
fn a_pipeline_is_as_harmful_as_those_that_it_calls() {
    let call = |name: &str| json!({"pipeline": {"name": name}});
    let optional = |name: &str| json!({"pipeline": {"name": name, "ignore_missing_pipeline": true}});
    let all = verdicts(&json!({
        "top": {"processors": [call("middle"), call("good")]},
        "middle": {"processors": [call("bad")]},
        "bad": {"processors": [{"script": {}}]},
        "good": {"processors": [call("reader"), optional("absent")]},
        "reader": {"processors": [{"set": {"field": "a", "copy_from": "_id"}}]},
        "broken": {"processors": [call("absent")]},
        "circle": {"processors": [call("other")]},
        "other": {"processors": [call("circle")]},
    }));
    let told: Vec<(&str, Result<bool, String>)> = all
        .verdicts()
        .map(|(name, verdict)| (name, verdict.as_ref().map(|harmless| harmless.reads_id).map_err(ToString::to_string)))
        .collect();
    let because = |text: &str| Err(text.to_owned());
    assert_eq!(
        told,
        [
            ("bad", because("the processor `script` may write any field")),
            ("broken", because("it calls the pipeline `absent`, which does not exist")),
            ("circle", Ok(false)),
            ("good", Ok(true)),
            ("middle", because("it calls the pipeline `bad`, which is not proven to be harmless")),
            ("other", Ok(false)),
            ("reader", Ok(true)),
            ("top", because("it calls the pipeline `middle`, which is not proven to be harmless")),
        ]
    );
}

#[test]
fn pipelines_that_were_not_read_are_not_harmless() {
    let mut definitions: Vec<Value> =
        (0..10_000).map(|number| json!({"id": format!("p{number}"), "config": {}})).collect();
    definitions[0]["config"] = json!({"processors": [
        {"pipeline": {"name": "last", "ignore_missing_pipeline": true}},
    ]});
    definitions[1] = json!({"id": "p1"});
    let reason = |definitions: &[Value], name: &str| {
        let state = json!({"metadata": {"ingest": {"pipeline": definitions}}});
        read(&state, usize::MAX).verdict(name).unwrap().as_ref().err().map(ToString::to_string)
    };
    assert_eq!(reason(&definitions, "p0"), None);
    assert_eq!(reason(&definitions, "p1").unwrap(), "its definition is missing in the cluster's state");
    definitions.push(json!({"id": "last", "config": {"processors": [{"script": {}}]}}));
    assert_eq!(reason(&definitions, "p0").unwrap(), "it calls the pipeline `last`, which was not read");
}

#[test]
fn processors_that_may_read_the_id_are_told() {
    for (option, value) in [
        ("value", json!("{{_id}}")),
        ("value", json!({"a": ["{{{ _source._routing }}}"]})),
        ("value", json!("{{#_source}}{{.}}{{/_source}}")),
        ("value", json!("{{ _source }}")),
        ("value", json!("{{=<% %>=}}<%_x%>")),
        ("copy_from", json!("_id")),
        ("if", json!("ctx._id == null")),
        ("if", json!("ctx['_id'] == null")),
        ("if", json!("ctx.containsKey('_routing')")),
        ("if", json!("ctx.containsKey('_' + 'id')")),
        ("if", json!("ctx['_' + 'id'] != null")),
        ("if", json!("ctx['_\u{5c}u0069d'] != null")),
        ("if", json!("ctx.size() > 3")),
        ("if", json!("ctx.keySet().contains(params.x)")),
        ("if", json!("def all = ctx; all.x")),
        ("if", json!("ctx == null")),
        ("if", json!("field('x').get('') == ''")),
        ("if", json!("$('x', '') == ''")),
        ("if", json!("metadata().id != null")),
        ("if", json!("new HashMap(ctx).size() > 1")),
        ("if", json!({"id": "stored"})),
        ("if", json!({"source": "ctx.x == 1", "lang": "other"})),
        ("if", json!({"source": "ctx._id == '1'", "lang": "painless"})),
        ("if", json!(true)),
    ] {
        let mut processor = json!({"set": {"field": "a", "value": 1}});
        processor["set"][option] = value;
        assert_eq!(verdict(processor.clone()), Ok(true), "{processor}");
    }
    for condition in [
        json!("if (ctx.a == null) { return true } return ctx.b.contains('x') && !(ctx.c instanceof List)"),
        json!("ctx.error?.message != null || ctx . a ?. b == 1"),
        json!({"source": "ctx.x == 1", "lang": "painless"}),
        json!({"source": "ctx.x == 1"}),
    ] {
        assert_eq!(verdict(json!({"drop": {"if": condition}})), Ok(false), "{condition}");
    }
    assert_eq!(verdict(json!({"fingerprint": {"method": "SHA-1"}})), Ok(true));
}
