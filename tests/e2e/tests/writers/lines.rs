//! Writers that no registry has: the requests with the lines that their sources produce.

use bulk_reshuffle_stack::Distribution::{
    self, Elasticsearch7_17, Elasticsearch8, Elasticsearch9, OpenSearch1, OpenSearch2, OpenSearch3,
};
use serde_json::{Value, json};

use crate::RELEASES;
use crate::requests::{REQUESTS, Requests};
use crate::target::Target;
use crate::writer::{Run, Writer};

const ELASTICSEARCH: &[Distribution] = &[Elasticsearch7_17, Elasticsearch8, Elasticsearch9];
/// The releases of Elasticsearch whose distributions for tests have data streams.
const WITH_STREAMS: &[Distribution] = &[Elasticsearch8, Elasticsearch9];
const OPENSEARCH: &[Distribution] = &[OpenSearch1, OpenSearch2, OpenSearch3];
/// The releases that accept `_type`.
const WITH_TYPES: &[Distribution] = &[Elasticsearch7_17, OpenSearch1];
/// The releases that refuse `_type`.
const WITHOUT_TYPES: &[Distribution] = &[Elasticsearch8, Elasticsearch9, OpenSearch2, OpenSearch3];

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const NDJSON: &[(&str, &str)] = &[("content-type", "application/x-ndjson")];

/// Returns a log entry.
fn entry(n: u64) -> Value {
    json!({
        "@timestamp": format!("2026-11-23T12:{:02}:{:02}.000Z", n / 60 % 60, n % 60),
        "message": format!("GET /books/{n} 200"), "host": {"name": format!("host-{}", n % 5)},
    })
}

/// Returns an action line and a log entry.
fn log(n: u64, action: &str) -> String {
    format!("{action}\n{}\n", entry(n))
}

/// Returns a writer whose source in this file produces the lines.
fn writer(
    name: &'static str,
    configuration: &'static str,
    on: &'static [Distribution],
    source: &'static str,
    requests: Requests,
    target: Target,
) -> Writer {
    let documents = usize::try_from(requests.operations).unwrap_or(usize::MAX);
    let run = Run::Requests(source, requests);
    Writer { name, configuration, on, targets: vec![target], run, documents, has_ids: false, volatile: &[] }
}

fn with_ids(writer: Writer) -> Writer {
    Writer { has_ids: true, ..writer }
}

fn with_documents(documents: usize, writer: Writer) -> Writer {
    Writer { documents, ..writer }
}

pub fn all() -> Vec<Writer> {
    [logstash(), fluent(), vector(), elastic(), kafka(), others()].into_iter().flatten().collect()
}

/// Returns the pipeline that comes with Elasticsearch for `logs-*-*`, which the distributions for tests lack.
fn logs_pipeline() -> Value {
    json!([
        {"set": {"field": "@timestamp", "value": "2026-11-23T00:00:00.000Z", "override": false}},
        {"pipeline": {"name": "logs@custom", "ignore_missing_pipeline": true}},
    ])
}

fn logs_stream(name: &str) -> Target {
    Target::stream(name, json!({"index.default_pipeline": "logs@default-pipeline"}))
        .pipeline("logs@default-pipeline", logs_pipeline())
}

fn logstash() -> Vec<Writer> {
    const SOURCE: &str = "logstash-output-elasticsearch: lib/logstash/outputs/elasticsearch.rb, http_client.rb";
    const OPENSEARCH_SOURCE: &str = "logstash-output-opensearch: lib/logstash/outputs/opensearch/http_client.rb";
    const LOGSTASH: Requests = Requests {
        path: "/_bulk?filter_path=errors,items.*.error,items.*.status",
        headers: &[
            ("content-type", "application/json"),
            ("x-elastic-product-origin", "logstash-output-elasticsearch"),
            ("user-agent", "Elastic-logstash/9.1.0 (OS=Linux) logstash-output-elasticsearch/12.1.6"),
            ("accept-encoding", "identity"),
        ],
        gzip: true,
        lines: |n| log(n, r#"{"index":{"_id":null,"_index":"logstash-2026.11.23","routing":null}}"#),
        ..REQUESTS
    };
    const OPENSEARCH_OUTPUT: Requests = Requests { path: "/_bulk", headers: JSON, gzip: false, ..LOGSTASH };
    const NAME: &str = "Logstash";
    vec![
        writer(
            NAME,
            "default: data stream `logs-generic-default`",
            WITH_STREAMS,
            SOURCE,
            Requests {
                lines: |n| log(n, r#"{"create":{"_id":null,"_index":"logs-generic-default","routing":null}}"#),
                ..LOGSTASH
            },
            logs_stream("logs-generic-default"),
        ),
        writer(NAME, "index with a date", ELASTICSEARCH, SOURCE, LOGSTASH, Target::index("logstash-2026.11.23")),
        with_ids(writer(
            NAME,
            "`document_id`, `version`, `version_type: external`",
            ELASTICSEARCH,
            SOURCE,
            Requests {
                lines: |n| {
                    let action = json!({"index": {
                        "_id": format!("entry-{n}"), "_index": "orders", "routing": null,
                        "version": (n + 1).to_string(), "version_type": "external",
                    }});
                    log(n, &action.to_string())
                },
                ..LOGSTASH
            },
            Target::index("orders"),
        )),
        with_ids(writer(
            NAME,
            "`action: update`, `doc_as_upsert`",
            ELASTICSEARCH,
            SOURCE,
            Requests {
                lines: |n| {
                    let action = json!({"update": {
                        "_id": format!("entry-{n}"), "_index": "orders", "routing": null, "retry_on_conflict": 1,
                    }});
                    format!("{action}\n{}\n", json!({"doc": entry(n), "doc_as_upsert": true}))
                },
                ..LOGSTASH
            },
            Target::index("orders"),
        )),
        writer(
            NAME,
            "`pipeline`",
            ELASTICSEARCH,
            SOURCE,
            Requests {
                lines: |n| {
                    let action = r#"{"index":{"_id":null,"_index":"logs","routing":null,"pipeline":"harmless"}}"#;
                    log(n, action)
                },
                ..LOGSTASH
            },
            Target::index("logs").pipeline("harmless", json!([{"set": {"field": "event.kind", "value": "event"}}])),
        ),
        writer(
            "Logstash, OpenSearch output",
            "index with a date",
            OPENSEARCH,
            OPENSEARCH_SOURCE,
            OPENSEARCH_OUTPUT,
            Target::index("logstash-2026.11.23"),
        ),
    ]
}

fn fluent() -> Vec<Writer> {
    const BIT: &str = "fluent-bit: plugins/out_es/es_bulk.h, es.c; plugins/out_opensearch/opensearch.c";
    const D: &str = "fluent-plugin-elasticsearch: lib/fluent/plugin/out_elasticsearch.rb";
    const PLAIN: Requests = Requests { headers: NDJSON, ..REQUESTS };
    vec![
        writer(
            "Fluent Bit",
            "default: `_type: \"_doc\"`",
            WITH_TYPES,
            BIT,
            Requests { lines: |n| log(n, r#"{"create":{"_index":"fluent-bit","_type":"_doc"}}"#), ..PLAIN },
            Target::index("fluent-bit"),
        ),
        writer(
            "Fluent Bit",
            "`suppress_type_name`",
            &RELEASES,
            BIT,
            Requests { lines: |n| log(n, r#"{"create":{"_index":"fluent-bit"}}"#), ..PLAIN },
            Target::index("fluent-bit"),
        ),
        with_ids(writer(
            "Fluent Bit",
            "`logstash_format`, `generate_id`, `suppress_type_name`",
            &RELEASES,
            BIT,
            Requests {
                lines: |n| {
                    let id = format!("{n:08x}-9d2c-11f0-{n:04x}-0242ac120002");
                    log(n, &format!(r#"{{"create":{{"_index":"logstash-2026.11.23","_id":"{id}"}}}}"#))
                },
                ..PLAIN
            },
            Target::index("logstash-2026.11.23"),
        )),
        writer(
            "Fluentd",
            "default: `_type: \"_doc\"`",
            WITH_TYPES,
            D,
            Requests { lines: |n| log(n, r#"{"index":{"_index":"fluentd","_type":"_doc"}}"#), ..PLAIN },
            Target::index("fluentd"),
        ),
        writer(
            "Fluentd",
            "`suppress_type_name`: `_type: null`",
            WITH_TYPES,
            D,
            Requests { lines: |n| log(n, r#"{"index":{"_index":"fluentd","_type":null}}"#), ..PLAIN },
            Target::index("fluentd"),
        ),
        writer(
            "Fluentd",
            "default for newer releases, `logstash_format`",
            WITHOUT_TYPES,
            D,
            Requests { lines: |n| log(n, r#"{"index":{"_index":"logstash-2026.11.23"}}"#), ..PLAIN },
            Target::index("logstash-2026.11.23"),
        ),
    ]
}

fn vector() -> Vec<Writer> {
    const SOURCE: &str = "vector: src/sinks/elasticsearch/encoder.rs, service.rs";
    const VECTOR: Requests = Requests { path: "/_bulk?timeout=60s", headers: NDJSON, ..REQUESTS };
    vec![
        writer(
            "Vector",
            "default: index with a date",
            &RELEASES,
            SOURCE,
            Requests { lines: |n| log(n, r#"{"index":{"_index":"vector-2026.11.23"}}"#), ..VECTOR },
            Target::index("vector-2026.11.23"),
        ),
        writer(
            "Vector",
            "`mode: data_stream`",
            WITH_STREAMS,
            SOURCE,
            Requests { lines: |n| log(n, r#"{"create":{"_index":"logs-generic-default"}}"#), ..VECTOR },
            logs_stream("logs-generic-default"),
        ),
        writer(
            "Vector",
            "`mode: data_stream`, without a pipeline",
            OPENSEARCH,
            SOURCE,
            Requests { lines: |n| log(n, r#"{"create":{"_index":"logs-generic-default"}}"#), ..VECTOR },
            Target::stream("logs-generic-default", json!({})),
        ),
    ]
}

fn elastic() -> Vec<Writer> {
    const BEATS: &str = "beats: libbeat/outputs/elasticsearch/client.go, bulkapi.go";
    const APM: &str = "go-docappender: bulk_indexer.go; apm-data: ingest-pipelines";
    const AGENT: Requests = Requests {
        path: "/_bulk?filter_path=errors%2Citems.%2A.error%2Citems.%2A.status",
        headers: &[
            ("content-type", "application/x-ndjson"),
            ("authorization", "ApiKey aWQ6a2V5"),
            ("x-elastic-product-origin", "observability"),
        ],
        lines: |n| log(n, r#"{"create":{"_index":"logs-system.syslog-default"}}"#),
        ..REQUESTS
    };
    const APM_SERVER: Requests = Requests {
        path: "/_bulk?require_data_stream=true&include_source_on_error=false",
        headers: &[("content-type", "application/x-ndjson"), ("x-elastic-product-origin", "observability")],
        gzip: true,
        lines: |n| log(n, r#"{"create":{"_index":"traces-apm-default"}}"#),
        ..REQUESTS
    };
    // The real pipelines also have scripts, `geoip` and `user_agent`, which the distributions for tests lack.
    let fleet = json!([
        {"set": {"field": "event.agent_id_status", "value": "missing", "override": false}},
        {"remove": {"field": "_tmp", "ignore_missing": true}},
    ]);
    let custom = |names: [&str; 3]| -> Value {
        let calls = names.map(|name| json!({"pipeline": {"name": name, "ignore_missing_pipeline": true}}));
        calls.into_iter().collect()
    };
    let integration = json!([
        {"set": {"field": "ecs.version", "value": "8.11.0"}},
        {"rename": {"field": "message", "target_field": "event.original", "ignore_missing": true}},
    ]);
    let fleet_stream = Target::stream(
        "logs-system.syslog-default",
        json!({
            "index.default_pipeline": "logs-system.syslog-2.5.0", "index.final_pipeline": ".fleet_final_pipeline-1",
        }),
    );
    let apm = Target::stream(
        "traces-apm-default",
        json!({"index.default_pipeline": "traces-apm@default-pipeline", "index.final_pipeline": "apm@pipeline"}),
    );
    let renamed = json!([{"rename": {
        "field": "process.ppid", "target_field": "process.parent.pid", "ignore_failure": true, "ignore_missing": true,
    }}]);
    let access = json!([{"set": {"field": "event.kind", "value": "event"}}]);
    vec![
        writer(
            "Elastic Agent",
            "integration: default and final pipeline",
            WITH_STREAMS,
            BEATS,
            AGENT,
            fleet_stream.pipeline("logs-system.syslog-2.5.0", integration).pipeline(".fleet_final_pipeline-1", fleet),
        ),
        writer(
            "Beats",
            "module: `pipeline` in each line",
            ELASTICSEARCH,
            BEATS,
            Requests {
                lines: |n| log(n, r#"{"create":{"_index":"filebeat","pipeline":"filebeat-nginx-access-pipeline"}}"#),
                ..AGENT
            },
            Target::index("filebeat").pipeline("filebeat-nginx-access-pipeline", access),
        ),
        writer(
            "APM Server",
            "default: traces",
            WITH_STREAMS,
            APM,
            APM_SERVER,
            apm.pipeline(
                "traces-apm@default-pipeline",
                custom(["global@custom", "traces@custom", "traces-apm@custom"]),
            )
            .pipeline("apm@pipeline", renamed),
        ),
    ]
}

fn kafka() -> Vec<Writer> {
    const CONFLUENT: &str = "kafka-connect-elasticsearch: DataConverter.java";
    const AIVEN: &str = "opensearch-connector-for-apache-kafka: RequestBuilder.java, BulkOperationBuilder.java";
    const OPERATIONS: u64 = 600;
    /// The first operations write documents, and the rest deletes some of them.
    const DOCUMENTS: u64 = 450;
    const KAFKA: Requests = Requests { headers: JSON, operations: OPERATIONS, ..REQUESTS };
    fn versioned(n: u64) -> String {
        let parameters = |id: u64| json!({"_id": format!("order-{id}"), "_index": "orders", "version": n + 7, "version_type": "external"});
        match n.checked_sub(DOCUMENTS) {
            Some(id) => format!("{}\n", json!({"delete": parameters(id)})),
            None => log(n, &json!({"index": parameters(n)}).to_string()),
        }
    }
    let remaining = usize::try_from(2 * DOCUMENTS - OPERATIONS).unwrap_or_default();
    let keyed = |name, on, source| {
        let configuration = "record keys: `version_type: external`, deletes";
        let requests = Requests { lines: versioned, ..KAFKA };
        let writer = writer(name, configuration, on, source, requests, Target::index("orders"));
        with_documents(remaining, with_ids(writer))
    };
    vec![
        keyed("Kafka Connect, Confluent sink", ELASTICSEARCH, CONFLUENT),
        with_ids(writer(
            "Kafka Connect, Confluent sink",
            "`key.ignore`",
            ELASTICSEARCH,
            CONFLUENT,
            Requests {
                lines: |n| log(n, &json!({"index": {"_id": format!("orders+0+{n}"), "_index": "orders"}}).to_string()),
                ..KAFKA
            },
            Target::index("orders"),
        )),
        with_ids(writer(
            "Kafka Connect, Confluent sink",
            "`write.method: upsert`",
            ELASTICSEARCH,
            CONFLUENT,
            Requests {
                lines: |n| {
                    let id = format!("order-{n}");
                    let action = json!({"update": {"_id": id, "_index": "orders", "retry_on_conflict": 5}});
                    format!("{action}\n{}\n", json!({"doc": entry(n), "upsert": entry(n)}))
                },
                ..KAFKA
            },
            Target::index("orders"),
        )),
        keyed("Kafka Connect, Aiven sink", OPENSEARCH, AIVEN),
        with_ids(writer(
            "Kafka Connect, Aiven sink",
            "other ids: `version_type: internal`",
            OPENSEARCH,
            AIVEN,
            Requests {
                lines: |n| {
                    let action = json!({"index": {
                        "_index": "orders", "_id": format!("orders+0+{n}"), "version_type": "internal",
                    }});
                    log(n, &action.to_string())
                },
                ..KAFKA
            },
            Target::index("orders"),
        )),
    ]
}

fn others() -> Vec<Writer> {
    const DATA_PREPPER: &str = "data-prepper: data-prepper-plugins/opensearch/…/OpenSearchSink.java";
    const GRAYLOG: &str = "graylog2-server: graylog-storage-opensearch2/…/MessagesAdapterOS2.java";
    const SKYWALKING: &str = "skywalking: library-elasticsearch-client/…/BulkProcessor.java, codec/V78RequestFactory";
    vec![
        with_ids(writer(
            "Data Prepper",
            "`trace-analytics-raw`: an alias, `require_alias`",
            OPENSEARCH,
            DATA_PREPPER,
            Requests {
                path: "/_bulk?filter_path=errors,took,items.*.error,items.*.status,items.*._index,items.*._id\
                       &require_alias=true",
                headers: JSON,
                lines: |n| {
                    let action = json!({"index": {"_id": format!("{n:016x}"), "_index": "otel-v1-apm-span"}});
                    log(n, &action.to_string())
                },
                ..REQUESTS
            },
            Target::index("otel-v1-apm-span-000001").alias("otel-v1-apm-span"),
        )),
        writer(
            "Data Prepper",
            "`index_type: custom`",
            OPENSEARCH,
            DATA_PREPPER,
            Requests {
                path: "/_bulk?filter_path=errors,took,items.*.error,items.*.status,items.*._index,items.*._id\
                       &require_alias=false",
                headers: JSON,
                lines: |n| log(n, r#"{"index":{"_index":"application-logs"}}"#),
                ..REQUESTS
            },
            Target::index("application-logs"),
        ),
        with_ids(writer(
            "Graylog",
            "default: an alias",
            &[Elasticsearch7_17, OpenSearch1, OpenSearch2],
            GRAYLOG,
            Requests {
                path: "/_bulk?timeout=1m",
                headers: JSON,
                lines: |n| {
                    let id = format!("{n:08x}-9d2c-11f0-8000-0242ac120002");
                    log(n, &json!({"index": {"_id": id, "_index": "graylog_deflector"}}).to_string())
                },
                ..REQUESTS
            },
            Target::index("graylog_0").alias("graylog_deflector"),
        )),
        with_documents(
            450,
            with_ids(writer(
                "SkyWalking",
                "default: index and update",
                &RELEASES,
                SKYWALKING,
                Requests {
                    headers: JSON,
                    lines: |n| match n.checked_sub(450) {
                        Some(id) => {
                            let action =
                                json!({"update": {"_id": format!("span-{id}"), "_index": "sw_metrics-20261123"}});
                            format!("{action}\n{}\n", json!({"doc": {"value": n}}))
                        }
                        None => {
                            let action =
                                json!({"index": {"_id": format!("span-{n}"), "_index": "sw_metrics-20261123"}});
                            log(n, &action.to_string())
                        }
                    },
                    ..REQUESTS
                },
                Target::index("sw_metrics-20261123"),
            )),
        ),
    ]
}
