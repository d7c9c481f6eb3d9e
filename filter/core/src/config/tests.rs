use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::node::{HttpAddress, Node};

/// Returns a node that has reported all that a template can name.
pub fn node() -> Node {
    Node {
        id: "xyz".into(),
        name: "hot-0".into(),
        attributes: BTreeMap::from([("zone".into(), "a".into())]),
        http: HttpAddress::read("es.example/10.0.0.7:9201"),
        present: true,
        ..Node::default()
    }
}

fn error(json: &str) -> (String, String) {
    let error = Config::read(json.as_bytes()).unwrap_err();
    (error.field, error.problem)
}

#[test]
fn only_the_coordinator_is_required() {
    let config = Config::read(br#"{"coordinator":"es"}"#).unwrap();
    assert_eq!(config.coordinator, "es");
    assert_eq!(config.hold.interval, Duration::from_millis(50));
    assert_eq!((config.hold.flush_threshold_size, config.limits.memory), (1024 * 1024, 256 * 1024 * 1024));
    assert_eq!((config.dispatch.max_in_flight, config.dispatch.max_in_flight_per_node), (1, 16));
}

#[test]
fn serialises_to_its_own_input() {
    let every: serde_json::Value = serde_json::from_str(include_str!("every_setting.json")).unwrap();
    let whole = &every["configuration"];
    let config = Config::read(whole.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&config).unwrap(), *whole);
}

#[test]
fn serialises_one_upstream_for_all_nodes_to_its_own_input() {
    for nodes in [
        serde_json::json!({"header": "x-node"}),
        serde_json::json!({
            "upstream": "nodes", "header": "x-node", "address": "{ip}:1", "addresses": {"a": "b:1"}, "only": ["10.*"],
        }),
    ] {
        let config = Config::read(serde_json::json!({"coordinator": "es", "nodes": nodes}).to_string().as_bytes());
        assert_eq!(serde_json::to_value(config.unwrap().nodes).unwrap(), nodes);
    }
}

#[test]
fn a_route_to_the_one_cluster_with_all_nodes_leads_here() {
    let config = |nodes: &str| Config::read(format!(r#"{{"coordinator":"es","nodes":{nodes}}}"#).as_bytes()).unwrap();
    let leads = |config: &Config| [b"es".as_slice(), b"nodes"].map(|cluster| config.is_route_here(cluster));
    assert_eq!(leads(&config(r#"{"header":"x-node","upstream":"nodes"}"#)), [true, true]);
    assert_eq!(leads(&config(r#"{"header":"x-node"}"#)), [true, false]);
    assert_eq!(leads(&config("{}")), [true, false]);
}

#[test]
fn credentials_are_never_serialised() {
    let config = Config::read(br#"{"coordinator":"es","credentials":{"authorization":"ApiKey hush"}}"#).unwrap();
    let written = serde_json::to_value(&config).unwrap();
    assert_eq!(written["credentials"], serde_json::json!({"authorization": "***"}));
    assert!(!format!("{written} {config:?}").contains("hush"));
}

#[test]
fn rejects_an_ambiguous_admin_path() {
    for path in ["_admin", "/", "/a/", "//a", "/a?b", "/a b", "/a/_bulk", "/a/../b", "/\u{e4}"] {
        let (field, problem) = error(&format!(r#"{{"coordinator":"es","admin_path":"{path}"}}"#));
        assert_eq!(field, "admin_path", "{path}");
        assert!(problem.contains("such as \"/_bulk_reshuffle\""), "{problem}");
    }
}

#[test]
fn reads_sizes_and_durations_as_users_write_them() {
    let config = Config::read(
        br#"{"coordinator":"es","hold":{"interval":"1m 30s","flush_threshold_size":"1.5kb"},
            "limits":{"memory":"64MB","max_request":"100b"},"cluster_state":{"refresh":"500ms"}}"#,
    )
    .unwrap();
    assert_eq!(config.hold.interval, Duration::from_secs(90));
    assert_eq!(config.hold.flush_threshold_size, 1536);
    assert_eq!((config.limits.memory, config.limits.max_request), (64 * 1024 * 1024, 100));
    assert_eq!(config.cluster_state.refresh, Duration::from_millis(500));
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    let check = |json: &str, field: &str, problem: &str| {
        let (found_field, found_problem) = error(json);
        assert_eq!(found_field, field, "{json}: {found_problem}");
        assert!(found_problem.contains(problem), "{json}: {found_problem}");
    };
    for (json, field, problem) in [
        ("[\"es\"]", ".", "expected an object"),
        (r#"{"coordinator":"es","hold":["50ms"]}"#, "hold", "expected an object"),
        ("{}", ".", "missing field `coordinator`"),
        (r#"{"coordinator":""}"#, "coordinator", "the name of an Envoy cluster"),
        (r#"{"coordinator":7}"#, "coordinator", "expected a string"),
    ] {
        check(json, field, problem);
    }
    for (more, field, problem) in [
        (r#""route_clusters":"b""#, "route_clusters", "expected a sequence"),
        (r#""route_clusters":["b",""]"#, "route_clusters[1]", "the name of an Envoy cluster"),
        (r#""holds":{}"#, "holds", "unknown field `holds`, expected one of"),
        (r#""hold":{"interval":50}"#, "hold.interval", "expected a duration"),
        (r#""hold":{"interval":"fast"}"#, "hold.interval", "found \"fast\""),
        (r#""hold":{"interval":"0s"}"#, "hold.interval", "found \"0s\""),
        (r#""hold":{"interval":"2h"}"#, "hold.interval", "found \"2h\""),
        (r#""hold":{"flush_threshold_size":"1xb"}"#, "hold.flush_threshold_size", "a size"),
        (r#""hold":{"flush_threshold_size":"0"}"#, "hold.flush_threshold_size", "a size"),
        (r#""hold":{"early_release":"yes"}"#, "hold.early_release", "a boolean"),
        (r#""dispatch":{"max_in_flight":0}"#, "dispatch.max_in_flight", "from 1 to 65535"),
        (r#""dispatch":{"compress":"gzip"}"#, "dispatch.compress", "expected a boolean or \"other_zones\""),
        (r#""dispatch":{"level":"index"}"#, "dispatch.level", "expected `node` or `shard`"),
        (r#""header_pause":"maybe""#, "header_pause", "expected one of `auto`, `stop`, `buffer`"),
        (r#""missing_id":"make""#, "missing_id", "expected one of `pass`, `generate`, `direct`"),
        (r#""indices":{}"#, "indices", "expected a sequence"),
        (r#""enabled":"false""#, "enabled", "expected a boolean or \"observe\""),
        (r#""indices":[{"enabled":true}]"#, "indices[0]", "missing field `pattern`"),
        (r#""indices":[{"pattern":"a"}]"#, "indices[0]", "expected `enabled`, `missing_id` or `single_documents`"),
        (r#""indices":[{"pattern":"a","enabled":null}]"#, "indices[0].enabled", "expected a boolean"),
        (r#""indices":[{"pattern":"a","missing_id":"make"}]"#, "indices[0].missing_id", "expected one of `pass`"),
        (
            r#""indices":[{"pattern":"a","missing_id":"pass"},{"pattern":"B*","missing_id":"pass"}]"#,
            "indices[1].pattern",
            "expected the name of an index",
        ),
        (r#""indices":[{"pattern":"a,b","missing_id":"pass"}]"#, "indices[0].pattern", "found \"a,b\""),
        (r#""indices":[{"pattern":"a","missing_id":"pass","shards":1}]"#, "indices[0].shards", "unknown field"),
        (r#""retry":{"attempts":-1}"#, "retry.attempts", "expected u32"),
        (
            r#""dispatch":{"identity":["Authorization"]}"#,
            "dispatch.identity[0]",
            "\"Authorization\" is not in lower case",
        ),
        (r#""dispatch":{"identity":["a",":path"]}"#, "dispatch.identity[1]", "a pseudo-header"),
        (r#""dispatch":{"identity":[""]}"#, "dispatch.identity[0]", "is not a header name"),
        (
            r#""dispatch":{"identity":["user-agent"]}"#,
            "dispatch.identity",
            "not in `harmless_headers`, found \"user-agent\"",
        ),
        (r#""dispatch":{"max_in_flight":17}"#, "dispatch.max_in_flight", "at most"),
        (r#""limits":{"memory":"2gb"}"#, "limits.memory", "640mb"),
        (r#""limits":{"memory":"1mb"}"#, "limits.max_request", "at most `limits.memory`"),
        (r#""nodes":{"upstream":"es"}"#, "nodes", "`upstream` takes a text with placeholders"),
        (r#""nodes":{"header":"Host"}"#, "nodes.header", "is not in lower case"),
        (r#""nodes":{"header":"host"}"#, "nodes.header", "such as \"x-bulk-reshuffle-node\", found \"host\""),
        (r#""nodes":{"only":[""]}"#, "nodes", "`only` takes names or addresses"),
        (r#""nodes":{"only":"es-*"}"#, "nodes.only", "expected a sequence"),
        (r#""nodes":{"upstreams":{"a":1}}"#, "nodes.upstreams.a", "expected a string"),
        (r#""credentials":{"a b":"x"}"#, "credentials", "not a header name"),
        (r#""credentials":{"a":"x\n"}"#, "credentials", "control character"),
        (r#""harmless_headers":"b3""#, "harmless_headers", "expected a sequence"),
        (r#""harmless_headers":[1]"#, "harmless_headers[0]", "expected a string"),
        (r#""harmless_headers":["b3",":path"]"#, "harmless_headers[1]", "pseudo-header"),
        (r#""harmless_headers":["a b"]"#, "harmless_headers[0]", "not a header name"),
        (r#""harmless_headers":[""]"#, "harmless_headers[0]", "not a header name"),
        (r#""harmless_headers":["B3"]"#, "harmless_headers[0]", "not in lower case"),
        (r#""harmless_headers":["host"]"#, "harmless_headers[0]", "\"host\" is never harmless"),
    ] {
        check(&format!(r#"{{"coordinator":"es",{more}}}"#), field, problem);
    }
}

#[test]
fn a_text_that_is_not_json_is_refused_with_line_and_column() {
    for (text, problem) in [
        ("{\"coordinator\": \"es\",\n \"hold\": {\n  }, }", "trailing comma at line 3 column 6"),
        ("{\"coordinator\": \"es\"} x", "trailing characters at line 1 column 23"),
        ("{\"coordinator\": \"es\"", "EOF while parsing an object at line 1 column 20"),
        ("{\"coordinator\": es}", "expected value at line 1 column 17"),
        ("{coordinator: es}", "key must be a string at line 1 column 2"),
        ("{\"hold\": {\"interval\": \"50ms}}", "EOF while parsing a string at line 1 column 29"),
        ("coordinator: es", "expected value at line 1 column 1"),
    ] {
        let error = Config::read(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("configuration: not valid JSON: {problem}"), "{text}");
    }
    for empty in ["", " \n"] {
        let error = Config::read(empty.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("configuration: empty, expected at least `coordinator`"), "{error}");
    }
    let error = Config::read(b"{}").unwrap_err().to_string();
    assert!(error.starts_with("configuration: `.`: missing field `coordinator`"), "{error}");
}

#[test]
fn a_damaged_configuration_is_either_not_json_or_has_an_invalid_field() {
    let whole = r#"{"coordinator":"es","hold":{"interval":"20ms"},"missing_id":"direct","retry":{"attempts":1},
        "credentials":{"a":"b"},"indices":[{"pattern":"a-*","enabled":false}],"nodes":{"upstreams":{"es-0":"hot"}}}"#;
    for at in 0..whole.len() {
        for damage in [&b""[..], b"}", b"]", b",", b"7", b"\"", b"\\", b"\xff", b"null"] {
            let damaged = [&whole.as_bytes()[..at], damage, &whole.as_bytes()[at + 1..]].concat();
            for text in [&damaged[..], &damaged[..at]] {
                let Err(error) = Config::read(text) else { continue };
                let is_json = serde_json::from_slice::<serde_json::Value>(text).is_ok();
                assert!(!is_json || !error.field.is_empty(), "{error}: {}", text.escape_ascii());
                assert!(!error.field.contains('?'), "{error}: {}", text.escape_ascii());
            }
        }
    }
}

#[test]
fn headers_that_identify_the_user_are_never_harmless() {
    for name in [
        "authorization",
        "es-client-authentication",
        "es-secondary-authorization",
        "es-secondary-x-client-authentication",
        "es-security-runas-user",
        "opendistro_security_impersonate_as",
        "_opendistro_security_user_header",
        "securitytenant",
        "signature-input",
        "x-amz-content-sha256",
        "x-forwarded-client-cert",
        "x-forwarded-for",
        "x-opensearch-security-user",
        "x-proxy-ext-department",
        "x-proxy-roles",
        "x-proxy-user",
    ] {
        let (field, problem) = error(&format!(r#"{{"coordinator":"es","harmless_headers":["{name}"]}}"#));
        assert_eq!(field, "harmless_headers[0]", "{name}");
        assert!(problem.contains("is never harmless"), "{name}: {problem}");
    }
}

#[test]
fn harmless_headers_replace_the_defaults() {
    let config = |more: &str| Config::read(format!(r#"{{"coordinator":"es"{more}}}"#).as_bytes()).unwrap();
    let default = config("").harmless_headers;
    assert!(default.contains("user-agent") && default.contains("traceparent") && !default.contains("x-opaque-id"));
    let chosen = config(r#","harmless_headers":["x-opaque-id","x_y.z"]"#).harmless_headers;
    assert!(chosen.contains("x-opaque-id") && chosen.contains("x_y.z") && !chosen.contains("user-agent"));
    assert!(!config(r#","harmless_headers":[]"#).harmless_headers.contains("b3"));
}

#[test]
fn the_first_matching_pattern_decides_on_missing_ids() {
    let config = Config::read(
        br#"{"coordinator":"es","missing_id":"generate","indices":[{"pattern":"logs-a","missing_id":"pass"},
            {"pattern":"logs-*","missing_id":"direct"},{"pattern":"*","missing_id":"pass"}]}"#,
    )
    .unwrap();
    let found = ["logs-a", "logs-b", "books"].map(|index| config.missing_id(index));
    assert_eq!(found, [MissingId::Pass, MissingId::Direct, MissingId::Pass]);
    let global = Config::read(br#"{"coordinator":"es","missing_id":"generate"}"#).unwrap();
    assert_eq!(global.missing_id("books"), MissingId::Generate);
}

#[test]
fn each_setting_comes_from_the_first_matching_pattern_that_has_it() {
    let config = Config::read(
        br#"{"coordinator":"es","missing_id":"pass","indices":[{"pattern":"logs-*","enabled":false},
            {"pattern":"logs-a*","enabled":true,"missing_id":"direct"},{"pattern":"*a","missing_id":"generate"},
            {"pattern":"book*","enabled":true},{"pattern":"*","enabled":false}]}"#,
    )
    .unwrap();
    let found = ["logs-a", "logs-b", "a", "books"]
        .map(|index| (config.enabled(index) == Enabled::No, config.missing_id(index)));
    let expected =
        [(true, MissingId::Direct), (true, MissingId::Pass), (true, MissingId::Generate), (false, MissingId::Pass)];
    assert_eq!(found, expected);
}

#[test]
fn credentials_are_never_shown() {
    let config = Config::read(br#"{"coordinator":"es","credentials":{"Authorization":"ApiKey s3cret"}}"#).unwrap();
    assert_eq!(config.credentials.headers().collect::<Vec<_>>(), [("authorization", "ApiKey s3cret")]);
    let shown = format!("{config:?}");
    assert!(shown.contains("authorization") && !shown.contains("s3cret"), "{shown}");
    for wrong in [r#"{"a":"s3cret\n"}"#, r#"{"a":["s3cret"]}"#, r#""s3cret""#] {
        let (field, problem) = error(&format!(r#"{{"coordinator":"es","credentials":{wrong}}}"#));
        assert_eq!(field, "credentials", "{problem}");
        assert!(!problem.contains("s3cret"), "{problem}");
    }
}
