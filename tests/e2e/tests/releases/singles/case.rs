use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::named_releases;
use bulk_reshuffle_stack::Distribution;
use bytes::Bytes;
use hyper::Request;
use serde::Deserialize;

use super::node::Step;

/// The file `cases.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Lists of releases, to which other lines refer.
    #[expect(dead_code, reason = "for the file itself")]
    releases: Vec<Vec<String>>,
    /// The requests that prepare a node.
    pub steps: Vec<Step>,
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[expect(dead_code, reason = "for readers of the file")]
    title: String,
    /// The releases that have what the group is about; if empty, all.
    #[serde(default, deserialize_with = "named_releases")]
    on: Vec<Distribution>,
    /// The body of cases without one.
    #[serde(default)]
    body: Option<String>,
    /// Why the two are not alike, for cases without a reason of their own.
    #[serde(default)]
    whole: Option<String>,
    cases: Vec<Case>,
}

/// A request, and how its answer compares with that to a bulk request of the same operation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// The place in the file.
    #[serde(skip)]
    pub number: usize,
    /// The method and the target. `@` is an id that no other case has, `{512}` an id of this length.
    pub request: String,
    /// The body, each character a byte; `{"f":1}` if there is none, except for DELETE.
    pub body: Option<String>,
    /// The length of a text to put into the body.
    pub text: usize,
    /// The headers of the request, and of the bulk request unless that has others.
    headers: BTreeMap<String, String>,
    /// The content type of the bulk request, instead of `application/x-ndjson`.
    pub bulk_type: Option<String>,
    /// Why the two are not alike. The filter passes such a request through, or lets only requests with the same value
    /// share a batch.
    pub whole: Option<String>,
    /// Whether the answer has a form that an item cannot have, such as indented. The filter gives it this form.
    pub formed: bool,
    /// The outcome: see `answers.rs`.
    is: String,
    /// The outcome on some releases, by their names.
    but: BTreeMap<String, String>,
}

impl Cases {
    pub fn read() -> Result<Self> {
        let mut cases: Self = serde_saphyr::from_str(include_str!("cases.yaml")).context("cases.yaml")?;
        let mut numbers = 1..;
        for group in &mut cases.groups {
            for case in &mut group.cases {
                case.number = numbers.next().unwrap_or_default();
                case.body = case.body.take().or_else(|| group.body.clone());
                case.whole = case.whole.take().or_else(|| group.whole.clone());
            }
        }
        Ok(cases)
    }

    /// Returns the cases for a release, in order.
    pub fn of(&self, release: Distribution) -> impl Iterator<Item = &Case> {
        let groups = self.groups.iter().filter(move |group| group.on.is_empty() || group.on.contains(&release));
        groups.flat_map(|group| &group.cases)
    }
}

impl Case {
    pub fn new(request: &str, is: &str) -> Self {
        Self { request: request.to_owned(), is: is.to_owned(), whole: Some(String::new()), ..Self::default() }
    }

    /// Returns the case with its own ids.
    pub fn with_ids(&self) -> Self {
        let request = self.request.replace('@', &format!("d{}", self.number));
        let request = [512, 513]
            .iter()
            .fold(request, |request, length| request.replace(&format!("{{{length}}}"), &"x".repeat(*length)));
        Self { request, ..self.clone() }
    }

    /// Returns the request and the body as text.
    pub fn shown(&self) -> String {
        let mut shown = self.request.clone();
        for part in self.body.iter().chain(self.headers.values()) {
            write!(shown, " {}", part.escape_default()).expect("a text has room");
        }
        shown
    }

    pub fn method(&self) -> &str {
        self.request.split_once(' ').map_or("", |(method, _)| method)
    }

    /// Returns the path and the query.
    pub fn target(&self) -> (&str, &str) {
        let target = self.request.split_once(' ').map_or("", |(_, target)| target);
        target.split_once('?').unwrap_or((target, ""))
    }

    pub fn expected(&self, release: Distribution) -> &str {
        let named = |(names, _): &(&String, &String)| names.split(' ').any(|name| name == release.name());
        self.but.iter().find(named).map_or(&self.is, |(_, outcome)| outcome)
    }

    /// Returns the bytes of the body.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.body {
            _ if self.text > 0 => format!("{{\"g\":\"{}\"}}", "y".repeat(self.text)).into_bytes(),
            Some(body) => body.chars().map(|byte| u8::try_from(u32::from(byte)).expect("a byte")).collect(),
            None if self.method() == "DELETE" => Vec::new(),
            None => br#"{"f":1}"#.to_vec(),
        }
    }

    /// Returns the request for the single document, with the path only.
    pub fn single(&self) -> Result<Request<Bytes>> {
        let (body, mut headers) = (self.bytes(), self.headers.clone());
        if !body.is_empty() {
            headers.entry("content-type".to_owned()).or_insert_with(|| "application/json".to_owned());
        }
        let target = self.request.split_once(' ').context("a request needs a method and a target")?.1;
        request(self.method(), target, &headers, body)
    }

    /// Returns a request with the headers of the single document, except its content type.
    pub fn bulk(&self, query: &str, body: Vec<u8>) -> Result<Request<Bytes>> {
        let (target, mut headers) = (format!("/_bulk{query}"), self.headers.clone());
        let media_type = self.bulk_type.clone().unwrap_or_else(|| "application/x-ndjson".to_owned());
        headers.insert("content-type".to_owned(), media_type);
        request("POST", &target, &headers, body)
    }
}

fn request(method: &str, target: &str, headers: &BTreeMap<String, String>, body: Vec<u8>) -> Result<Request<Bytes>> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        request = request.header(name, value);
    }
    request.body(body.into()).with_context(|| target.to_owned())
}
