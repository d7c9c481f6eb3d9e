use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::Deserialize;

use super::aliases::Aliases;
use super::details::{Details, LONGEST_PATH, encoded};
use super::overview::Overview;
use super::state_query::{RefreshError, StateQuery};
use crate::json::{CursorError, JsonCursor};
use crate::node::NodeInfo;
use crate::routing::pipelines::Definitions;
use crate::routing::sharing::Content;
use crate::routing::table::{BUCKETS, Buckets, Entry, NameKind, Target, Unrouted, Version};

/// One poll of the cluster. It queries the version of the state, then an overview if that has changed, and then details
/// of what has changed.
///
/// The elected master answers the query of the version, which costs it little. The nodes that get the other two answer
/// from their own copies of the state, and the cycle checks that each is at least as new as the answer before. A copy is
/// older while a new state reaches one node after the other: the master adopts it last. It may also be older for longer,
/// until a node that does not follow is removed.
///
/// Answers are read in steps, so that requests do not wait long.
#[derive(Debug)]
pub(crate) struct Cycle {
    plan: Plan,
    /// Whether some of the known content may be missing, because the worker that published it may not have finished.
    may_lack: bool,
    /// Whether the state does not follow the known one: it is older, or another cluster's. Then nothing known is certain.
    restarts: bool,
    /// The outcome of the search for the wanted names.
    search: Search,
    /// How often the last query has failed.
    failures: u8,
    stage: Stage,
    overview: Overview,
    aliases: Option<Aliases>,
    left: Left,
    /// The number of answers with details that are not published yet.
    unpublished: usize,
    has_changed: bool,
    /// The messages about mappings that are not taken yet.
    warnings: Vec<String>,
    /// The latest state that the cycle has seen.
    latest: Option<Version>,
    /// Whether states of several clusters were seen, with that before the cycle.
    has_several_clusters: bool,
    /// Whether the cycle failed because the copy of a node was older than an answer before.
    lags: bool,
}

/// What a cycle knows and has to find.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The number of the cycle.
    pub number: u32,
    /// An unused number, for a new numbering of the nodes.
    pub numbering: u64,
    /// The last state that was read completely. The cycle ends at once if it is still the latest.
    pub known: Option<Version>,
    /// Whether the nodes' HTTP addresses are needed.
    pub needs_http: bool,
    /// Whether the addresses of the nodes would help.
    pub wants_http: bool,
    /// Whether a request has named a pipeline.
    pub needs_pipelines: bool,
    /// The names that operations used and the table does not know. With very many indices only these are loaded.
    pub wanted: BTreeSet<Rc<str>>,
    /// Whether the cycle searches for them even if the state has not changed.
    pub looks_for_wanted: bool,
    /// Whether the cycle reads the aliases again even if they have not changed.
    pub confirms_aliases: bool,
}

/// The indices that still need a query for details.
#[derive(Debug)]
struct Left {
    /// Their names. They are taken from the end.
    names: Vec<String>,
    /// The maximum number of them in a query.
    most: usize,
}

/// The outcome of a cycle's search for the wanted names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// No search took place: there were no names, or the state has not changed.
    None,
    /// None of the names exists.
    Missed,
    /// At least one of the names exists.
    Found,
}

#[derive(Debug)]
enum Stage {
    Ask(StateQuery),
    Asked(StateQuery),
    Overview(JsonCursor),
    Settings,
    Nodes,
    Aliases,
    ReadAliases(JsonCursor),
    Targets,
    Prune(u8),
    Details,
    ReadDetails(JsonCursor, Details, Vec<String>),
    Pipelines,
    ReadPipelines(JsonCursor, Definitions),
    Done,
}

/// The next action of a cycle.
#[derive(Debug)]
pub(crate) enum Todo {
    Ask(StateQuery),
    /// Pause for other work: this takes a while.
    Pause,
    /// Publish what was found so far.
    Publish,
    /// End the cycle.
    Finish,
}

/// The number of bytes of an answer that are read in one step: one to two milliseconds in the VM.
const BYTES_PER_STEP: usize = 128 << 10;

/// The number of aliases that are resolved in one step.
const ALIASES_PER_STEP: usize = 1000;

/// The number of buckets that are pruned in one step.
const BUCKETS_PER_STEP: u8 = 32;

/// The number of indices beyond which only those that operations use are loaded.
pub(crate) const MAX_INDICES_LOADED: usize = 20_000;

/// The number of answers with details after which the results are published.
const ANSWERS_PER_PUBLICATION: usize = 16;

/// The maximum number of indices in a query for details.
const MAX_INDICES_PER_QUERY: usize = 200;

/// The maximum number of times that an unsent query is repeated. The upstream may still list hosts that are gone.
const MAX_UNSENT_RETRIES: u8 = 5;

#[derive(Deserialize)]
struct NodesAnswer {
    #[serde(default)]
    nodes: BTreeMap<String, NodeInfo>,
}

impl Cycle {
    /// Creates a cycle.
    pub fn new(plan: Plan) -> Self {
        Self {
            may_lack: plan.known.is_none() || plan.confirms_aliases,
            latest: plan.known.clone(),
            has_several_clusters: false,
            lags: false,
            plan,
            restarts: false,
            search: Search::None,
            failures: 0,
            stage: Stage::Ask(StateQuery::Version),
            overview: Overview::default(),
            aliases: None,
            left: Left { names: Vec::new(), most: MAX_INDICES_PER_QUERY },
            unpublished: 0,
            has_changed: false,
            warnings: Vec::new(),
        }
    }

    /// Returns the state if it was read completely.
    pub fn known(&self) -> Option<&Version> {
        self.plan.known.as_ref().filter(|_| matches!(self.stage, Stage::Done))
    }

    /// Returns whether states of several clusters were seen, with that before the cycle.
    pub fn has_several_clusters(&self) -> bool {
        self.has_several_clusters
    }

    /// Returns whether the cycle failed because the copy of a node was older than an answer before.
    pub fn lags(&self) -> bool {
        self.lags
    }

    fn older(&mut self, cursor: &JsonCursor) -> CursorError {
        self.lags = true;
        let problem =
            "the node that has answered has an older state than others, or that of another cluster".to_owned();
        CursorError { at: cursor.position(), problem }
    }

    fn meet(&mut self, state: &Version) {
        let last = self.latest.replace(state.clone());
        self.has_several_clusters |= last.is_some_and(|last| last.cluster_uuid != state.cluster_uuid);
    }

    /// Returns whether the aliases are read again although they have not changed.
    pub fn confirms_aliases(&self) -> bool {
        self.plan.confirms_aliases
    }

    /// Returns whether the state has changed.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns the outcome of the search for the wanted names.
    pub fn search(&self) -> Search {
        self.search
    }

    /// Takes the messages about settings in mappings that are ignored, for each index whose settings are new.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Takes the wanted names if no search took place.
    pub fn take_wanted(&mut self) -> BTreeSet<Rc<str>> {
        let was_searched = self.search != Search::None;
        std::mem::take(&mut self.plan.wanted).into_iter().filter(|_| !was_searched).collect()
    }

    /// Returns the last query, if it is still unanswered.
    pub fn query(&self) -> Option<&StateQuery> {
        match &self.stage {
            Stage::Asked(query) => Some(query),
            _ => None,
        }
    }

    /// Repeats the last query, which got no answer, unless the limit is reached. Returns whether it does.
    pub fn asks_again(&mut self, was_sent: bool) -> bool {
        let most = if was_sent { 1 } else { MAX_UNSENT_RETRIES };
        let Stage::Asked(query) = std::mem::replace(&mut self.stage, Stage::Done) else { return false };
        if self.failures >= most {
            self.stage = Stage::Asked(query);
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        self.stage = match query {
            // The answer may have been too large.
            StateQuery::Details(mut names) if was_sent && names.len() > 1 => {
                self.left.most = names.len() / 2;
                names.reverse();
                self.left.names.append(&mut names);
                self.failures = 0;
                Stage::Details
            }
            query => Stage::Ask(query),
        };
        true
    }

    /// Continues without an answer to the last query, if routing does not need it. Returns whether it does.
    pub fn skips(&mut self, query: &StateQuery) -> bool {
        self.stage = match query {
            StateQuery::Settings => Stage::Nodes,
            StateQuery::Nodes if !self.plan.needs_http => Stage::Aliases,
            StateQuery::Pipelines => Stage::Done,
            _ => return false,
        };
        true
    }

    /// Continues the cycle up to the next action.
    pub fn next(&mut self, content: &mut Content) -> Result<Todo, RefreshError> {
        loop {
            let stage = std::mem::replace(&mut self.stage, Stage::Done);
            let (stage, todo) = self.step(stage, content)?;
            self.stage = stage;
            if let Some(todo) = todo {
                return Ok(todo);
            }
        }
    }

    /// Returns the stage after this one, and the action before it, if there is one.
    fn step(&mut self, stage: Stage, content: &mut Content) -> Result<(Stage, Option<Todo>), RefreshError> {
        let pause = Some(Todo::Pause);
        Ok(match stage {
            Stage::Ask(query) => (Stage::Asked(query.clone()), Some(Todo::Ask(query))),
            Stage::Asked(query) => (Stage::Asked(query), pause),
            Stage::Overview(cursor) => {
                (self.read_overview(cursor, content).map_err(form(&StateQuery::Overview))?, pause)
            }
            Stage::Settings => (Stage::Ask(StateQuery::Settings), None),
            Stage::Nodes => match content.cluster.nodes.lack_info(self.plan.needs_http || self.plan.wants_http) {
                true => (Stage::Ask(StateQuery::Nodes), None),
                false => (Stage::Aliases, None),
            },
            Stage::Aliases => {
                let same = self.overview.alias_signature == content.cluster.alias_signature;
                let is_known = same && !self.may_lack;
                let none = is_known || self.overview.aliases.is_empty();
                (if none { Stage::Targets } else { Stage::Ask(StateQuery::Aliases) }, None)
            }
            Stage::ReadAliases(cursor) => (self.read_aliases(cursor).map_err(form(&StateQuery::Aliases))?, pause),
            Stage::Targets => (self.follow_aliases(content), pause),
            Stage::Prune(from) => {
                // The range ends at the last bucket.
                let until = from.saturating_add(BUCKETS_PER_STEP);
                (from..until).for_each(|bucket| content.prune(bucket, self.plan.number));
                (if until < BUCKETS { Stage::Prune(until) } else { Stage::Details }, pause)
            }
            Stage::Details => match self.left.next() {
                names if names.is_empty() => (Stage::Pipelines, None),
                names => (Stage::Ask(StateQuery::Details(names)), None),
            },
            Stage::ReadDetails(cursor, details, names) => {
                let query = StateQuery::Details(Vec::new());
                let stage = self.read_details(cursor, details, names, content).map_err(form(&query))?;
                (stage, Some(self.after_details()))
            }
            Stage::Pipelines => {
                let is_needed =
                    self.plan.needs_pipelines || content.pipelines.is_some() || content.buckets.have_pipelines();
                (if is_needed { Stage::Ask(StateQuery::Pipelines) } else { Stage::Done }, None)
            }
            Stage::ReadPipelines(cursor, definitions) => {
                let read = self.read_pipelines(cursor, definitions, content);
                (read.map_err(form(&StateQuery::Pipelines))?, pause)
            }
            Stage::Done => (Stage::Done, Some(Todo::Finish)),
        })
    }

    /// Processes the cluster's answer to the last query.
    pub fn answered(&mut self, status: u16, body: Vec<u8>, content: &mut Content) -> Result<(), RefreshError> {
        let Stage::Asked(query) = std::mem::replace(&mut self.stage, Stage::Done) else { return Ok(()) };
        self.failures = 0;
        if status != 200 {
            let advice = match status {
                401 => "; check the user and the password, or the API key, in `credentials`",
                403 => "; give the user in `credentials` the privileges in filter/README.md",
                _ => "",
            };
            return Err(RefreshError { query, problem: format!("the cluster answered with status {status}{advice}") });
        }
        let cursor = |body| JsonCursor::new(body).map_err(form(&query));
        self.stage = match &query {
            StateQuery::Version => {
                let version: Version = serde_json::from_slice(&body).map_err(form(&query))?;
                self.meet(&version);
                let is_other = |known: &Version| known.cluster_uuid != version.cluster_uuid;
                self.restarts = self.plan.known.as_ref().is_some_and(is_other);
                // With very many indices the table may lack existing ones although the state has not changed.
                let is_searched = self.plan.looks_for_wanted && !self.plan.wanted.is_empty();
                let is_reread = is_searched || self.plan.confirms_aliases;
                let is_known = self.plan.known.as_ref() == Some(&version) && !is_reread;
                match is_known {
                    true if content.pipelines.is_none() => Stage::Pipelines,
                    true => Stage::Done,
                    false => Stage::Ask(StateQuery::Overview),
                }
            }
            StateQuery::Overview => Stage::Overview(cursor(body)?),
            StateQuery::Settings => {
                content.set_settings(&body).map_err(form(&query))?;
                Stage::Nodes
            }
            StateQuery::Nodes => {
                let NodesAnswer { mut nodes } = serde_json::from_slice(&body).map_err(form(&query))?;
                content.change_cluster(|cluster| cluster.nodes.set_info(&mut nodes));
                Stage::Aliases
            }
            StateQuery::Aliases => {
                self.aliases = Some(Aliases::default());
                Stage::ReadAliases(cursor(body)?)
            }
            StateQuery::Details(names) => Stage::ReadDetails(cursor(body)?, Details::default(), names.clone()),
            StateQuery::Pipelines => Stage::ReadPipelines(cursor(body)?, Definitions::default()),
        };
        Ok(())
    }

    fn read_overview(&mut self, mut cursor: JsonCursor, content: &mut Content) -> Result<Stage, CursorError> {
        let is_found = Cell::new(false);
        let wanted = |name: &str, count: usize| {
            let is_wanted = self.plan.wanted.contains(name);
            is_found.set(is_found.get() || is_wanted);
            count <= MAX_INDICES_LOADED || is_wanted
        };
        let nothing_known = Buckets::default();
        let known = if self.restarts { &nothing_known } else { &content.buckets };
        let is_all = self.overview.read(&mut cursor, BYTES_PER_STEP, (known, self.plan.number), wanted)?;
        match is_found.get() {
            true => self.search = Search::Found,
            false if self.search == Search::None && !self.plan.wanted.is_empty() => self.search = Search::Missed,
            false => {}
        }
        if !is_all {
            return Ok(Stage::Overview(cursor));
        }
        let version = self.overview.version();
        let nothing = || CursorError { at: cursor.position(), problem: "the state has no version".to_owned() };
        let version = version.ok_or_else(nothing)?;
        let is_old = self.latest.as_ref().is_some_and(|latest| version.is_older_than(latest));
        if is_old {
            return Err(self.older(&cursor));
        }
        self.meet(&version);
        if !self.restarts && self.plan.known.as_ref().is_some_and(|known| version.is_before(known)) {
            // The elected master may lag behind a node, but the overview itself is older than what it was compared with.
            self.restarts = true;
            self.overview = Overview::default();
            return Ok(Stage::Ask(StateQuery::Overview));
        }
        self.plan.known = Some(version);
        self.has_changed = true;
        if self.restarts {
            content.restart(self.plan.numbering);
        }
        content.set_nodes(std::mem::take(&mut self.overview.nodes), self.plan.numbering);
        let is_partial = self.overview.indices > MAX_INDICES_LOADED;
        if content.cluster.is_partial != is_partial {
            content.change_cluster(|cluster| cluster.is_partial = is_partial);
        }
        self.left.names = std::mem::take(&mut self.overview.changed).into_values().flatten().collect();
        self.left.names.reverse();
        Ok(Stage::Settings)
    }

    fn read_aliases(&mut self, mut cursor: JsonCursor) -> Result<Stage, CursorError> {
        let is_all = self.aliases.get_or_insert_default().read(&mut cursor, BYTES_PER_STEP)?;
        Ok(if is_all { Stage::Targets } else { Stage::ReadAliases(cursor) })
    }

    /// Records where aliases and data streams lead.
    fn follow_aliases(&mut self, content: &mut Content) -> Stage {
        for _ in 0..ALIASES_PER_STEP {
            if let Some((alias, members)) = self.overview.aliases.pop_first() {
                self.follow_alias(&alias, &members, content);
            } else if let Some((alias, stream)) = self.overview.data_stream_aliases.pop_first() {
                let index = stream.and_then(|stream| self.overview.data_streams.get(&stream));
                let index = index.map(|index| index.as_deref().map_err(|why| *why));
                let index = index.unwrap_or(Err(Unrouted::Alias));
                let target = Target::of_data_stream(NameKind::DataStreamAlias, index);
                self.set_target(&alias, target, content);
            } else if let Some((stream, index)) = self.overview.data_streams.pop_first() {
                let target = Target::of_data_stream(NameKind::DataStream, index.as_deref().map_err(|why| *why));
                self.set_target(&stream, target, content);
            } else {
                if content.cluster.alias_signature != self.overview.alias_signature {
                    content.change_cluster(|cluster| cluster.alias_signature = self.overview.alias_signature);
                }
                return Stage::Prune(0);
            }
        }
        Stage::Targets
    }

    fn follow_alias(&mut self, alias: &str, members: &[String], content: &mut Content) {
        match (&self.aliases, content.buckets.get(alias)) {
            // The target is unchanged.
            (None, entry) => {
                let index = entry.and_then(|entry| {
                    entry.seen().set(self.plan.number);
                    entry.target()?.index.as_deref().ok()
                });
                self.want_too(alias, index, content);
            }
            (Some(aliases), _) => {
                let target = match aliases.write_target(alias, members) {
                    Some((index, details)) => Target::new(Ok(index), details.index_routing.as_deref()),
                    None => Target::new(Err(Unrouted::Alias), None),
                };
                self.set_target(alias, target, content);
            }
        }
    }

    fn set_target(&mut self, name: &str, target: Target, content: &mut Content) {
        target.seen.set(self.plan.number);
        self.want_too(name, target.index.as_deref().ok(), content);
        match content.buckets.get(name) {
            Some(Entry::Target(known)) if known.is_like(&target) => known.seen.set(self.plan.number),
            _ => content.set_target(name, target),
        }
    }

    /// If the alias is wanted, also wants the index that it leads to.
    fn want_too(&mut self, name: &str, index: Option<&str>, content: &Content) {
        if let Some(index) = index
            && self.plan.wanted.contains(name)
            && content.buckets.index(index).is_none()
            && !self.left.names.iter().any(|left| left == index)
        {
            self.search = Search::Found;
            self.left.names.push(index.to_owned());
        }
    }

    fn read_details(
        &mut self,
        mut cursor: JsonCursor,
        mut details: Details,
        names: Vec<String>,
        content: &mut Content,
    ) -> Result<Stage, CursorError> {
        if !details.read(&mut cursor, BYTES_PER_STEP, &content.cluster.nodes)? {
            return Ok(Stage::ReadDetails(cursor, details, names));
        }
        if !self.latest.as_ref().is_some_and(|state| details.are_of(state)) {
            return Err(self.older(&cursor));
        }
        let mut by_section: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        for name in names {
            by_section.entry(Buckets::number(&name)).or_default().push(name);
        }
        for (bucket, changed) in by_section {
            content.change(bucket, |names| {
                for name in changed {
                    let Some(index) = details.index(&name) else {
                        names.remove(name.as_str());
                        continue;
                    };
                    let known = names.get(name.as_str()).and_then(Entry::index);
                    if known.is_none_or(|known| !index.has_same_problems(known)) {
                        self.warnings.extend(index.warning(&name));
                    }
                    names.insert(name.into(), Entry::Index(index));
                }
            });
        }
        self.unpublished = self.unpublished.saturating_add(1);
        Ok(Stage::Details)
    }

    fn read_pipelines(
        &mut self,
        mut cursor: JsonCursor,
        mut definitions: Definitions,
        content: &mut Content,
    ) -> Result<Stage, CursorError> {
        if !definitions.read(&mut cursor, BYTES_PER_STEP)? {
            return Ok(Stage::ReadPipelines(cursor, definitions));
        }
        if !self.latest.as_ref().is_some_and(|state| definitions.are_of((state.version, &state.cluster_uuid))) {
            return Err(self.older(&cursor));
        }
        content.set_pipelines(Some(definitions.into_verdicts()));
        self.has_changed = true;
        Ok(Stage::Done)
    }

    fn after_details(&mut self) -> Todo {
        if self.unpublished < ANSWERS_PER_PUBLICATION {
            return Todo::Pause;
        }
        self.unpublished = 0;
        Todo::Publish
    }
}

impl Left {
    /// Takes the names for the next query, as many as fit.
    fn next(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut room = LONGEST_PATH.saturating_sub(Details::path([]).len());
        while names.len() < self.most {
            let Some(name) = self.names.pop() else { break };
            let length = encoded(&name).map(str::len).sum::<usize>().saturating_add(1);
            if length <= room {
                room = room.saturating_sub(length);
                names.push(name);
            } else if !names.is_empty() {
                self.names.push(name);
                break;
            }
            // A name that is too long for any query cannot be an index.
        }
        names
    }
}

/// Returns the error of an answer that does not have the expected format.
fn form<E: ToString>(query: &StateQuery) -> impl Fn(E) -> RefreshError {
    move |error| RefreshError { query: query.clone(), problem: error.to_string() }
}
