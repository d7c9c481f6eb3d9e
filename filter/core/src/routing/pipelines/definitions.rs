use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::processor::Effects;
use super::verdict::{Harmless, Pipelines, Unproven};
use crate::json::{CursorError, JsonCursor};

/// The definitions of all pipelines, as they are read.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    version: u64,
    cluster_uuid: String,
    effects: BTreeMap<Box<str>, Result<Effects, Unproven>>,
    /// Whether there are more pipelines than are read.
    has_more: bool,
}

/// A pipeline in the cluster's state.
#[derive(Deserialize)]
struct Definition {
    id: String,
    config: Option<Map<String, Value>>,
}

/// The most pipelines that are read. There is no verdict on the others.
const MAX_PIPELINES: usize = 10_000;

/// The parts of a definition that have no effect on documents.
const INERT: [&str; 7] = [
    "description",
    "version",
    "_meta",
    "deprecated",
    "field_access_pattern",
    "created_date_millis",
    "modified_date_millis",
];

impl Definitions {
    /// The path of the query. The filter takes the definitions unchanged: a narrower one could omit a processor without
    /// options.
    pub const PATH: &str =
        "/_cluster/state/version,metadata?local=true&filter_path=version,cluster_uuid,metadata.ingest.pipeline";

    /// Returns whether these are the definitions of a state, or of a later one of the same cluster.
    pub fn are_of(&self, (version, cluster_uuid): (u64, &str)) -> bool {
        self.version >= version && self.cluster_uuid == cluster_uuid
    }

    /// Reads about `bytes` more bytes of a cluster's answer. Returns whether the answer is complete.
    pub fn read(&mut self, cursor: &mut JsonCursor, bytes: usize) -> Result<bool, CursorError> {
        let until = cursor.position().saturating_add(bytes);
        while cursor.position() < until {
            if cursor.is_in(&["metadata", "ingest", "pipeline"]) {
                if let Some(definition) = cursor.element::<Definition>()? {
                    self.add(definition);
                }
                continue;
            }
            let Some(key) = cursor.key()?.map(str::to_owned) else { return Ok(true) };
            match key.as_str() {
                "version" if cursor.is_in(&[]) => self.version = cursor.value()?,
                "cluster_uuid" if cursor.is_in(&[]) => self.cluster_uuid = cursor.value()?,
                "metadata" if cursor.is_in(&[]) => cursor.enter()?,
                "ingest" if cursor.is_in(&["metadata"]) => cursor.enter()?,
                "pipeline" if cursor.is_in(&["metadata", "ingest"]) => cursor.enter_list()?,
                _ => cursor.skip()?,
            }
        }
        Ok(false)
    }

    fn add(&mut self, Definition { id, config }: Definition) {
        if self.effects.len() < MAX_PIPELINES {
            let effects = match config {
                Some(config) => effects(&config),
                None => Err(Unproven::new("its definition is missing in the cluster's state")),
            };
            self.effects.insert(id.into(), effects);
        } else {
            self.has_more = true;
        }
    }

    /// Returns the verdicts. A pipeline is as harmful as those that it calls. Pipelines that call each other in a circle
    /// fail, which is harmless.
    pub fn into_verdicts(self) -> Pipelines {
        let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let (mut unproven, mut reads_id) = (BTreeMap::new(), BTreeSet::new());
        let (mut new_unproven, mut new_readers) = (Vec::new(), Vec::new());
        for (name, effects) in &self.effects {
            let name = name.as_ref();
            match effects {
                Err(why) => new_unproven.push((name, why.clone())),
                Ok(effects) => {
                    new_readers.extend(effects.reads_id.then_some(name));
                    for call in &effects.calls {
                        callers.entry(&call.pipeline).or_default().push(name);
                        let may_be_absent = call.is_optional && !self.has_more;
                        if !may_be_absent && !self.effects.contains_key(&call.pipeline) {
                            let why = if self.has_more { "was not read" } else { "does not exist" };
                            let why = format!("it calls the pipeline `{}`, which {why}", call.pipeline);
                            new_unproven.push((name, Unproven::new(&why)));
                        }
                    }
                }
            }
        }
        let callers_of = |name: &str| callers.get(name).into_iter().flatten().copied();
        while let Some((name, why)) = new_unproven.pop() {
            if !unproven.contains_key(name) {
                let why_callers = format!("it calls the pipeline `{name}`, which is not proven to be harmless");
                new_unproven.extend(callers_of(name).map(|caller| (caller, Unproven::new(&why_callers))));
                unproven.insert(name, why);
            }
        }
        while let Some(name) = new_readers.pop() {
            if reads_id.insert(name) {
                new_readers.extend(callers_of(name));
            }
        }
        let verdict = |name: &str| match unproven.get(name) {
            Some(why) => Err(why.clone()),
            None => Ok(Harmless { reads_id: reads_id.contains(name) }),
        };
        Pipelines(self.effects.keys().map(|name| (name.clone(), verdict(name))).collect())
    }
}

/// Returns the effects of a pipeline without those that it calls.
fn effects(config: &Map<String, Value>) -> Result<Effects, Unproven> {
    let mut effects = Effects::default();
    for (part, value) in config {
        match part.as_str() {
            "processors" | "on_failure" => effects.add_all(value)?,
            "field_access_pattern" if value != "classic" => {
                return Err(Unproven::new("it has an access pattern that the filter does not know"));
            }
            part if INERT.contains(&part) => {}
            part => return Err(Unproven::new(&format!("it has the unknown part `{part}`"))),
        }
    }
    Ok(effects)
}
