//! Limits on the cost of following a large state, as far as they can be checked without a clock.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use allocation_counter::measure;
use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, Route, Silence, StateCache, StateQuery, Upstreams, hash};
use bulk_reshuffle_bench::large_state::{LargeCluster, Shelf, Step, Worker};

fn queries(steps: &[Step]) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for query in steps.iter().filter_map(|step| step.asked.as_ref()) {
        *count.entry(query.to_string()).or_default() += 1;
    }
    count
}

fn expected(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(query, count)| ((*query).to_owned(), *count)).collect()
}

const DETAILS: &str = "details of indices";

#[test]
fn only_the_changed_parts_of_a_state_are_queried() {
    let mut cluster = LargeCluster::new(10_000);
    let mut worker = Worker::new(1, &Shelf::default());
    let first = queries(&worker.refresh(&cluster));
    // A query names as many indices as fit into the first line of a request.
    assert!((100..=150).contains(&first[DETAILS]), "{first:?}");
    assert_eq!(queries(&worker.refresh(&cluster)), expected(&[("version", 1)]));
    for (changed, details) in [(0, 0), (1, 1), (100, 2)] {
        cluster.change(changed);
        let found = queries(&worker.refresh(&cluster));
        // Aliases are queried only if an index that has one has changed.
        assert_eq!((found["version"], found["overview"], found["settings"]), (1, 1, 1));
        assert_eq!(found.get(DETAILS).copied().unwrap_or_default(), details, "{changed} changed");
    }
    assert!(worker.events.iter().all(|events| !matches!(events, bulk_reshuffle::routing::PollEvent::Failed(_))));
}

#[test]
fn long_answers_and_lists_are_processed_in_steps() {
    let cluster = LargeCluster::new(10_000);
    let shelf = Shelf::default();
    let steps = Worker::new(1, &shelf).refresh(&cluster);
    let overview = steps.iter().position(|step| step.asked == Some(StateQuery::Overview)).unwrap();
    let settings = steps.iter().position(|step| step.asked == Some(StateQuery::Settings)).unwrap();
    // Each step reads 128 kB.
    assert!(settings - overview >= steps[overview + 1].answer / (128 << 10), "{overview} to {settings}");
    // The writes of a step are the cluster, 255 sections, and the lease.
    let writes = steps.iter().map(|step| step.shared.1).max().unwrap();
    assert!((2..=33).contains(&writes), "{writes}");
    let taken_over = Worker::new(2, &shelf).refresh(&cluster);
    assert_eq!(queries(&taken_over).get(DETAILS), None);
    assert!(taken_over.len() >= 8);
    assert!(taken_over.iter().all(|step| step.shared.0 <= 33 && step.shared.1 == 0 || step.asked.is_some()));
}

#[test]
fn a_shared_table_routes_the_same() {
    let mut cluster = LargeCluster::new(1_000);
    let shelf = Shelf::default();
    let (mut first, mut second) = (Worker::new(1, &shelf), Worker::new(2, &shelf));
    for changed in [0, 7] {
        cluster.change(changed);
        first.refresh(&cluster);
        second.refresh(&cluster);
        let tables = [&first, &second].map(|worker| Rc::clone(worker.table.as_ref().unwrap()));
        for name in cluster.names().iter().cloned().chain([LargeCluster::alias(3), LargeCluster::data_stream(5)]) {
            let [found, taken_over] = [0, 1].map(|of| tables[of].route(&name, Some(hash("some-id")), None));
            assert!(matches!(found, Ok(Route::Primary { .. })), "{name}: {found:?}");
            assert_eq!(found, taken_over, "{name}");
        }
    }
}

/// With more than 20,000 indices only the first ones are loaded, and those that requests use.
#[test]
fn with_very_many_indices_those_that_operations_use_are_loaded() {
    let cluster = LargeCluster::new(20_100);
    let mut worker = Worker::new(1, &Shelf::default());
    worker.refresh(&cluster);
    let route = |worker: &Worker, name: &str| worker.table.as_ref().unwrap().route(name, Some(7), None).is_ok();
    let [loaded, late, later] = [19_999, 20_085, 20_099].map(|number| cluster.names()[number].clone());
    assert_eq!([&loaded, &late, &later].map(|name| route(&worker, name)), [true, false, false]);
    worker.want(&late);
    assert_eq!(queries(&worker.refresh(&cluster))[DETAILS], 1);
    assert_eq!([&loaded, &late, &later].map(|name| route(&worker, name)), [true, true, false]);
}

/// An answer beyond Envoy's 32 MiB is lost. The worker halves the query until its answer is small enough.
#[test]
fn a_query_with_too_large_an_answer_is_halved_and_repeated() {
    let cluster = LargeCluster::new(200);
    let limit = cluster.answer(0, &StateQuery::Details(cluster.names()[..20].to_vec()).path()).unwrap().len();
    let config = Config::read(br#"{"coordinator":"es"}"#).unwrap();
    let mut cache = StateCache::new(&config, 1, Box::new(Shelf::default()));
    cache.wake(Time::ZERO);
    let (mut asked, now) = (Vec::new(), Duration::from_secs(1));
    while let Some(action) = cache.next(now) {
        let PollAction::Ask(query) = action else { continue };
        let answer = cluster.answer(0, &query.path()).unwrap();
        if let StateQuery::Details(names) = &query {
            asked.push((names.len(), answer.len() <= limit));
        }
        match matches!(query, StateQuery::Details(_)) && answer.len() > limit {
            true => cache.failed(Silence::NoAnswer, now),
            false => cache.answered(200, answer.into_bytes(), now),
        }
    }
    let too_many: Vec<usize> = asked.iter().filter(|(_, fits)| !fits).map(|(names, _)| *names).collect();
    assert!(too_many.len() >= 2 && too_many.windows(2).all(|pair| pair[1] == pair[0] / 2), "{asked:?}");
    assert_eq!(asked.iter().filter(|(_, fits)| *fits).map(|(names, _)| names).sum::<usize>(), 200);
    let table = cache.new_table(&mut Upstreams::new("es")).unwrap();
    assert!(cluster.names().iter().all(|name| table.route(name, Some(7), None).is_ok()));
}

/// The limit is for 64 bits. In the VM pointers take half of this.
#[test]
fn a_table_takes_at_most_64_bytes_per_shard_without_names() {
    let cluster = LargeCluster::new(10_000);
    let shelf = Shelf::default();
    // The second worker applies what the first has found, so that only the table is counted.
    Worker::new(1, &shelf).refresh(&cluster);
    let mut worker = None;
    let info = measure(|| drop(worker.insert(Worker::new(2, &shelf)).refresh(&cluster)));
    let all = usize::try_from(info.bytes_current).unwrap();
    assert!(worker.unwrap().table.is_some());
    let targets = (0..400).map(LargeCluster::alias).chain((0..400).map(LargeCluster::data_stream));
    let names: usize = cluster.names().iter().map(String::len).chain(targets.map(|name| name.len())).sum();
    let for_each = (all - names) / cluster.shards();
    println!("{all} bytes, {names} of them names: {for_each} bytes for each shard; published: {}", shelf.bytes());
    assert!((2..=64).contains(&for_each), "{for_each}");
}

/// In the VM pointers take half of this.
#[test]
fn a_table_takes_at_most_64_bytes_more_for_each_node_of_one_envoy_cluster() {
    let addresses = (0..300_u16).map(|node| ([10, 0, 0, 1], 9_200 + node).into());
    let mut cluster = LargeCluster::with(300, 1, 300);
    cluster.set_addresses(addresses);
    let [own, shared] = ["{}", r#"{"header": "x-bulk-reshuffle-node"}"#].map(|nodes| {
        let config = format!(r#"{{"coordinator": "es", "nodes": {nodes}}}"#);
        let (shelf, mut worker) = (Shelf::default(), None);
        let new = || drop(worker.insert(Worker::configured(1, &shelf, &config)).refresh(&cluster));
        let bytes = measure(new).bytes_current;
        let table = worker.and_then(|worker| worker.table).unwrap();
        assert_eq!(table.upstreams().len(), 300, "{config}");
        bytes
    });
    println!("300 nodes, 300 shards: {own} bytes; in one Envoy cluster: {shared}");
    assert!((1..=300 * 64).contains(&(shared - own)), "{own} bytes, in one Envoy cluster {shared}");
}
