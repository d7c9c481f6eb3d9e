//! The JSON schema of the configuration, which editors use. The fields and their texts are those of the code. The patterns
//! use only what all engines of regular expressions understand.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::field::{DurationOrZeroText, DurationText, HeaderNameText, SizeText};
use super::harmless_headers::{HarmlessName, NEVER_HARMLESS, NEVER_HARMLESS_BEGIN};
use super::nodes::{HEADER_PREFIX, MEANINGFUL, NodeHeaderText, ORIGINAL_DST};
use super::{AdminPath, Compress, Config, Credentials, Enabled, IndexPattern};

/// Numbers with the units of [`humantime`].
const DURATION: &str = "^( *[0-9][0-9 ]*(\\.[0-9 ]+)?(nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds|second|secs|sec|s|\
                        minutes|minute|mins|min|m|hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w|\
                        months|month|M|years|year|yrs|yr|y) *)+$";

const SIZE: &str = "^[0-9 _.]*[1-9][0-9 _.]*([eE][0-9 _+-]*)?[kKmMgGtTpPeE]?[iI]?[bB]?$";

// One validator takes a dollar sign for the end, even in brackets.
const HEADER_NAME: &str = "^[!#\\x24%&'*+.^_`|~0-9a-z-]+$";

impl Config {
    /// Returns the JSON schema of a configuration. Everything that [`Config::read`] accepts is valid. It refuses most of
    /// the rest: not what contradicts another field, nor a duration or a size beyond its bounds.
    pub fn schema() -> Value {
        let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<Self>();
        schema.insert("title".to_owned(), "The configuration of bulk-reshuffle".into());
        schema.remove("description");
        RecursiveTransform(tidy).transform(&mut schema);
        schema.to_value()
    }
}

/// Joins the lines of a description, and removes the sizes of integers, which editors do not know.
fn tidy(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// Describes a type by a schema that is written where the type is used.
macro_rules! describe {
    ($($described:ty => $schema:expr;)*) => {$(
        impl JsonSchema for $described {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($described).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

describe! {
    DurationText => text(DURATION, Self::EXPECTED);
    DurationOrZeroText => text(&format!("^0$|{DURATION}"), Self::EXPECTED);
    SizeText => text(SIZE, Self::EXPECTED);
    HeaderNameText => text(HEADER_NAME, "the name of a header in lower case");
    HarmlessName => {
        let mut schema = text(HEADER_NAME, "the name of a header in lower case");
        let begin = format!("^({})", NEVER_HARMLESS_BEGIN.join("|"));
        schema.insert("not".to_owned(), serde_json::json!({"anyOf": [{"enum": NEVER_HARMLESS}, {"pattern": begin}]}));
        schema
    };
    NodeHeaderText => {
        let (begin, meaningful) = (format!("^{HEADER_PREFIX}"), format!("^({})", MEANINGFUL.join("|")));
        let own = json_schema!({"pattern": HEADER_NAME, "allOf": [{"pattern": begin}], "not": {"pattern": meaningful}});
        json_schema!({"type": "string", "anyOf": [{"enum": ["", ORIGINAL_DST]}, own]})
    };
    IndexPattern => text(
        "^[^A-Z\\x00-\\x1f\\x7f \"\\\\/,|<>?#:]+$",
        "the name of an index, in which `*` stands for any characters or none",
    );
    AdminPath => text("^(/[A-Za-z0-9_.~-]+)*$", "a path such as \"/_bulk_reshuffle\", or nothing");
    Credentials => json_schema!({
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$"},
        "additionalProperties": {"type": "string", "pattern": "^[^\\x00-\\x1f\\x7f]*$"},
    });
    Enabled => values(&[Self::Yes, Self::No, Self::Observe]);
    Compress => values(&[Self::Always, Self::Never, Self::OtherZones]);
}

/// Returns the schema of a text. Some editors show what was expected; others ignore that.
fn text(pattern: &str, expected: &str) -> Schema {
    json_schema!({"type": "string", "pattern": pattern, "patternErrorMessage": format!("expected {expected}")})
}

fn values<T: Serialize>(all: &[T]) -> Schema {
    json_schema!({"enum": all})
}
