use std::borrow::Cow;

use serde::Serialize;

use super::target::{Target, decoded};
use crate::bulk::Action;

/// A write of a single document, as an operation of a bulk request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The action.
    pub action: Action,
    /// The index, alias or data stream.
    pub index: String,
    /// The action line, with its newline.
    pub line: Vec<u8>,
    /// The query of the bulk request: the parameters that its lines cannot have.
    pub query: String,
    /// The custom routing value, if the query has one.
    pub routing: Option<String>,
}

/// The error for a parameter that a bulk request has no equal for, or whose value clusters may read in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the query has a parameter that no bulk request has")]
pub struct QueryError;

/// The parameters of an action line.
#[derive(Debug, Default, Serialize)]
struct Parameters<'a> {
    #[serde(rename = "_index")]
    index: &'a str,
    #[serde(rename = "_id", skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_seq_no: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_primary_term: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    require_alias: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    require_data_stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_on_conflict: Option<u64>,
}

impl Target<'_> {
    /// Returns the operation that the request stands for.
    pub fn into_write(self) -> Result<Write, QueryError> {
        let (mut action, mut query, mut seen) = (self.action, String::new(), Vec::new());
        let mut line = Parameters { index: &self.index, id: self.id.as_deref(), ..Parameters::default() };
        for parameter in self.query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if seen.contains(&name) {
                return Err(QueryError);
            }
            seen.push(name);
            match name {
                "op_type" => action = self.with_op_type(value)?,
                _ if line.set(name, value, self.action)? => {}
                _ if is_of_bulk(name, self.action) => {
                    query.push_str(if query.is_empty() { "" } else { "&" });
                    query.push_str(parameter);
                }
                _ => return Err(QueryError),
            }
        }
        let mut text = Vec::from(b"{\"");
        text.extend_from_slice(action.name().as_bytes());
        text.extend_from_slice(b"\":");
        // Serialising strings and numbers to memory cannot fail.
        let _ = serde_json::to_writer(&mut text, &line);
        text.extend_from_slice(b"}\n");
        text.shrink_to_fit();
        let routing = line.routing.map(Cow::into_owned);
        Ok(Write { action, line: text, query, routing, index: self.index.into_owned() })
    }

    fn with_op_type(&self, value: &str) -> Result<Action, QueryError> {
        match (value, self.action) {
            ("create", Action::Index | Action::Create) => Ok(Action::Create),
            ("index", Action::Index | Action::Create) if !self.is_create_path => Ok(Action::Index),
            _ => Err(QueryError),
        }
    }
}

impl<'a> Parameters<'a> {
    /// Sets a parameter. Returns whether lines have it, for this action.
    fn set(&mut self, name: &str, value: &'a str, action: Action) -> Result<bool, QueryError> {
        let (is_update, is_delete) = (action == Action::Update, action == Action::Delete);
        match name {
            "if_seq_no" => self.if_seq_no = Some(number(value)?),
            "if_primary_term" => self.if_primary_term = Some(number(value)?),
            "retry_on_conflict" if is_update => self.retry_on_conflict = Some(number(value)?),
            "require_alias" if !is_delete => self.require_alias = Some(boolean(value)?),
            // An update in a bulk request keeps the routing value that the document has, and a single one changes it.
            _ if is_update => return Ok(false),
            "routing" => self.routing = Some(text(value)?),
            "version" => self.version = Some(number(value)?),
            "version_type" => self.version_type = Some(value),
            "pipeline" if !is_delete => self.pipeline = Some(text(value)?),
            "require_data_stream" if !is_delete => self.require_data_stream = Some(boolean(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns whether a parameter belongs to the query of a bulk request, where it means the same.
fn is_of_bulk(name: &str, action: Action) -> bool {
    match name {
        "refresh" | "timeout" => true,
        // A single update that changes nothing does not wait.
        "wait_for_active_shards" => action != Action::Update,
        "pretty" | "human" | "format" | "filter_path" | "error_trace" => true,
        "include_source_on_error" => action != Action::Delete,
        _ => false,
    }
}

/// Decodes a text. In a query, a plus sign means a space, and a semicolon separates parameters like an ampersand.
fn text(value: &str) -> Result<Cow<'_, str>, QueryError> {
    if value.is_empty() || value.contains(';') {
        return Err(QueryError);
    }
    let decoded = match value.contains('+') {
        true => decoded(&value.replace('+', " ")).map(|text| Cow::Owned(text.into_owned())),
        false => decoded(value),
    };
    decoded.ok_or(QueryError)
}

fn number(value: &str) -> Result<u64, QueryError> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_plain).ok_or(QueryError)
}

fn boolean(value: &str) -> Result<bool, QueryError> {
    match value {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(QueryError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(method: &str, path: &str) -> Result<Write, QueryError> {
        Target::read(method.as_bytes(), path).unwrap().unwrap().into_write()
    }

    fn line(method: &str, path: &str) -> String {
        String::from_utf8(write(method, path).unwrap().line).unwrap()
    }

    #[test]
    fn writes_the_action_line() {
        for (method, path, expected) in [
            ("PUT", "/books/_doc/1", r#"{"index":{"_index":"books","_id":"1"}}"#),
            ("POST", "/books/_doc", r#"{"create":{"_index":"books"}}"#),
            ("POST", "/books/_doc?op_type=index", r#"{"index":{"_index":"books"}}"#),
            ("PUT", "/books/_doc/1?op_type=create", r#"{"create":{"_index":"books","_id":"1"}}"#),
            ("PUT", "/books/_create/1?op_type=create", r#"{"create":{"_index":"books","_id":"1"}}"#),
            ("DELETE", "/books/_doc/a%22%0Ab", r#"{"delete":{"_index":"books","_id":"a\"\nb"}}"#),
            (
                "PUT",
                "/books/_doc/1?routing=a+b%2B%20c&version=3&version_type=external&pipeline=p&require_alias",
                r#"{"index":{"_index":"books","_id":"1","routing":"a b+ c","version":3,"version_type":"external","pipeline":"p","require_alias":true}}"#,
            ),
            (
                "DELETE",
                "/books/_doc/1?if_seq_no=7&if_primary_term=1",
                r#"{"delete":{"_index":"books","_id":"1","if_seq_no":7,"if_primary_term":1}}"#,
            ),
            ("POST", "/books/_update/1?refresh", r#"{"update":{"_index":"books","_id":"1"}}"#),
            (
                "POST",
                "/books/_update/1?retry_on_conflict=3&require_alias=false",
                r#"{"update":{"_index":"books","_id":"1","require_alias":false,"retry_on_conflict":3}}"#,
            ),
        ] {
            assert_eq!(line(method, path), format!("{expected}\n"), "{method} {path}");
        }
    }

    #[test]
    fn the_other_parameters_stay_in_the_query() {
        let Write { query, routing, .. } =
            write("PUT", "/books/_doc/1?refresh=wait_for&routing=a%2Fb&&pretty&timeout=1m").unwrap();
        assert_eq!((query.as_str(), routing.as_deref()), ("refresh=wait_for&pretty&timeout=1m", Some("a/b")));
        assert_eq!(write("DELETE", "/books/_doc/1").unwrap().query, "");
    }

    #[test]
    fn parameters_without_an_equal_have_an_error() {
        for query in [
            "routing=",
            "routing=a;b",
            "routing=%f",
            "routing=é",
            "routing=a&routing=a",
            "version=-1",
            "version=+1",
            "version=",
            "version=x",
            "if_seq_no=1%30",
            "op_type=update",
            "op_type=",
            "require_alias=yes",
            "pipeline=",
            "dynamic_templates=a",
            "list_executed_pipelines=true",
            "lang=en",
            "_slice=1",
            "rout%69ng=a",
            "unknown",
        ] {
            assert_eq!(write("PUT", &format!("/books/_doc/1?{query}")), Err(QueryError), "{query}");
        }
        for query in ["pipeline=p", "require_alias=true", "op_type=create", "include_source_on_error=true"] {
            assert_eq!(write("DELETE", &format!("/books/_doc/1?{query}")), Err(QueryError), "{query}");
        }
        for query in [
            "routing=a",
            "_source=true",
            "_source_includes=a",
            "wait_for_active_shards=1",
            "doc_as_upsert=true",
            "retry_on_conflict=-1",
            "pipeline=p",
            "version=1",
            "require_data_stream=false",
            "op_type=create",
        ] {
            assert_eq!(write("POST", &format!("/books/_update/1?{query}")), Err(QueryError), "{query}");
        }
        assert_eq!(write("PUT", "/books/_create/1?op_type=index"), Err(QueryError));
        assert_eq!(write("PUT", "/books/_doc/1?retry_on_conflict=1"), Err(QueryError));
    }
}
