//! The effects of one processor.

use serde_json::{Map, Value};

use super::texts::{any_text, condition_may_read_id, may_read_id, words};
use super::verdict::Unproven;

/// The effects of some processors, apart from the pipelines that they call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// Whether one of them may read the id or the routing value.
    pub reads_id: bool,
    /// The names of the pipelines that they call. A call that ignores a missing pipeline is optional.
    pub calls: Vec<Call>,
}

/// A call of another pipeline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub pipeline: Box<str>,
    pub is_optional: bool,
}

/// The fields of a document that are its metadata. `_source.x` stands for `x`, so it may be metadata too.
const METADATA: [&str; 12] = [
    "_index",
    "_id",
    "_routing",
    "_type",
    "_parent",
    "_version",
    "_version_type",
    "_if_seq_no",
    "_if_primary_term",
    "_dynamic_templates",
    "_op_type",
    "_source",
];

/// The options that name the fields which a processor writes or removes. Where such an option only names the field to
/// read, the rule is stricter than needed.
const TARGETS: [&str; 5] = ["field", "target_field", "target_fields", "source_field", "path"];

/// The options of all processors.
const COMMON: [&str; 3] = ["description", "tag", "ignore_failure"];

/// The processors that write only their targets, and fields below these, each with its further options. Their default
/// targets are not metadata.
const KNOWN: &[(&str, &[&str])] = &[
    ("append", &["value", "allow_duplicates", "media_type", "copy_from", "ignore_empty_values"]),
    (
        "attachment",
        &["indexed_chars", "indexed_chars_field", "properties", "ignore_missing", "remove_binary", "resource_name"],
    ),
    ("bytes", &["ignore_missing"]),
    ("circle", &["shape_type", "error_distance", "ignore_missing"]),
    (
        "community_id",
        &[
            "source_ip",
            "source_port",
            "destination_ip",
            "destination_port",
            "iana_number",
            "icmp_type",
            "icmp_code",
            "transport",
            "seed",
            "ignore_missing",
        ],
    ),
    ("convert", &["type", "ignore_missing"]),
    ("copy", &["ignore_missing", "remove_source", "override_target"]),
    ("csv", &["separator", "quote", "ignore_missing", "trim", "empty_value"]),
    ("date", &["formats", "timezone", "locale", "output_format"]),
    ("dissect", &["pattern", "append_separator", "ignore_missing"]),
    ("dot_expander", &["override"]),
    ("drop", &[]),
    ("enrich", &["policy_name", "override", "max_matches", "shape_relation", "ignore_missing"]),
    ("fail", &["message"]),
    ("fingerprint", &["fields", "salt", "method", "ignore_missing"]),
    ("foreach", &["processor", "ignore_missing"]),
    (
        "geoip",
        &["database_file", "properties", "ignore_missing", "first_only", "download_database_on_pipeline_creation"],
    ),
    ("grok", &["patterns", "pattern_definitions", "ecs_compatibility", "trace_match", "ignore_missing"]),
    ("gsub", &["pattern", "replacement", "ignore_missing"]),
    ("html_strip", &["ignore_missing"]),
    (
        "ip_location",
        &["database_file", "properties", "ignore_missing", "first_only", "download_database_on_pipeline_creation"],
    ),
    ("join", &["separator"]),
    ("json", &["add_to_root", "add_to_root_conflict_strategy", "allow_duplicate_keys", "strict_json_parsing"]),
    (
        "kv",
        &[
            "field_split",
            "value_split",
            "include_keys",
            "exclude_keys",
            "ignore_missing",
            "prefix",
            "trim_key",
            "trim_value",
            "strip_brackets",
        ],
    ),
    ("lowercase", &["ignore_missing"]),
    (
        "network_direction",
        &["source_ip", "destination_ip", "internal_networks", "internal_networks_field", "ignore_missing"],
    ),
    ("pipeline", &["name", "ignore_missing_pipeline"]),
    ("redact", &["patterns", "pattern_definitions", "prefix", "suffix", "ignore_missing", "skip_if_unlicensed"]),
    ("registered_domain", &["ignore_missing"]),
    ("remove", &["ignore_missing"]),
    ("rename", &["ignore_missing", "override", "override_target"]),
    ("set", &["value", "copy_from", "override", "ignore_empty_value", "media_type"]),
    ("set_security_user", &["properties"]),
    ("sort", &["order"]),
    ("split", &["separator", "ignore_missing", "preserve_trailing"]),
    ("terminate", &[]),
    ("trim", &["ignore_missing"]),
    ("uppercase", &["ignore_missing"]),
    ("uri_parts", &["keep_original", "remove_if_successful", "ignore_missing"]),
    ("urldecode", &["ignore_missing"]),
    ("user_agent", &["regex_file", "properties", "extract_device_type", "ignore_missing"]),
];

type Options = Map<String, Value>;

impl Effects {
    /// Adds the effects of a list of processors. Fails at the first that may write metadata.
    pub fn add_all(&mut self, processors: &Value) -> Result<(), Unproven> {
        let malformed = || Unproven::new("it is not a list of processors");
        for processor in processors.as_array().ok_or_else(malformed)? {
            self.add(processor)?;
        }
        Ok(())
    }

    /// Adds the effects of a processor: `{"set": {…}}`.
    fn add(&mut self, processor: &Value) -> Result<(), Unproven> {
        let single = processor.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next());
        let Some((kind, Value::Object(options))) = single else {
            return Err(Unproven::new("a processor is not an object with one key"));
        };
        let found = KNOWN.iter().find(|(name, _)| name == kind);
        let (kind, known) =
            *found.ok_or_else(|| Unproven::new(&format!("the processor `{kind}` may write any field")))?;
        for (option, value) in options {
            match option.as_str() {
                "if" => self.reads_id |= condition_may_read_id(value),
                "on_failure" => self.add_all(value)?,
                "processor" if kind == "foreach" => self.add(value)?,
                option if COMMON.contains(&option) => {}
                option if TARGETS.contains(&option) => check_targets(kind, value)?,
                option if known.contains(&option) => {}
                option => {
                    return Err(Unproven::new(&format!("the processor `{kind}` has the unknown option `{option}`")));
                }
            }
            if !["if", "on_failure", "processor"].contains(&option.as_str()) && !COMMON.contains(&option.as_str()) {
                self.reads_id |= may_read_id(value);
            }
        }
        self.check_kind(kind, options)
    }

    /// Checks the rules of single kinds of processors.
    fn check_kind(&mut self, kind: &str, options: &Options) -> Result<(), Unproven> {
        let fails = |why: &str| Err(Unproven::new(&format!("the processor `{kind}` {why}")));
        match kind {
            "pipeline" => match options.get("name").and_then(Value::as_str) {
                Some(name) if !name.contains("{{") => {
                    let is_optional = options.get("ignore_missing_pipeline").is_some_and(is_true);
                    self.calls.push(Call { pipeline: name.into(), is_optional });
                }
                _ => return fails("takes the name of a pipeline from the document"),
            },
            // The names of captures are fields. A capture may also have the name of metadata in a nested pattern.
            "grok"
                if ["patterns", "pattern_definitions"].iter().any(|option| {
                    options.get(*option).is_some_and(|value| any_text(value, &|text| words(text).any(is_metadata)))
                }) =>
            {
                return fails("has a capture with the name of metadata");
            }
            "dissect" if options.get("pattern").is_none_or(|pattern| any_text(pattern, &is_dissected_by_data)) => {
                return fails("takes the name of a field from the document, or writes metadata");
            }
            "kv" if !options.contains_key("target_field") => {
                return fails("takes the names of fields from the document");
            }
            "json" if options.get("add_to_root").is_some_and(|value| !is_false(value)) => {
                return fails("takes the names of fields from the document");
            }
            "dot_expander" if options.get("field").is_none_or(|field| any_text(field, &|text| text.contains('*'))) => {
                return fails("takes the names of fields from the document");
            }
            // Without a list OpenSearch's takes all fields.
            "fingerprint" => self.reads_id |= !options.contains_key("fields"),
            _ => {}
        }
        Ok(())
    }
}

/// Checks that these targets, a text or a list of texts, are fixed and not metadata.
fn check_targets(kind: &str, targets: &Value) -> Result<(), Unproven> {
    let list = match targets {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    for target in list {
        let Value::String(field) = target else {
            return Err(Unproven::new(&format!("the processor `{kind}` has a target that is not a text")));
        };
        if field.contains("{{") {
            return Err(Unproven::new(&format!("the processor `{kind}` takes the name of a field from the document")));
        }
        let first = field.split('.').next().unwrap_or_default();
        if first.is_empty() || is_metadata(first) {
            return Err(Unproven::new(&format!("the processor `{kind}` may write `{field}`")));
        }
    }
    Ok(())
}

fn is_metadata(field: &str) -> bool {
    METADATA.contains(&field)
}

/// Returns whether a pattern of `dissect` writes metadata or fields that the document names: `%{*key}` and `%{&key}`.
fn is_dissected_by_data(pattern: &str) -> bool {
    let keys = pattern.split("%{").skip(1).map(|rest| rest.split('}').next().unwrap_or_default());
    words(pattern).any(is_metadata) || keys.into_iter().any(|key| key.contains(['*', '&']))
}

/// Returns whether a cluster reads an option as `true`, which may be a text.
fn is_true(value: &Value) -> bool {
    value == true || value == "true"
}

fn is_false(value: &Value) -> bool {
    value == false || value == "false"
}
