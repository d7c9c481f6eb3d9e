use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Value, json};

use super::answer::{self, Answer, blur, blur_id};
use super::chance::Chance;
use super::change::Change;
use super::operation::{Author, Manner, Naming};
use super::request::Request;
use super::style::Style;
use super::tally::Tally;
use super::target::keeps_failures;
use super::template::{Numbers, Side};
use crate::shared_scene::{SharedScene, distribution};

/// The probability of a change before a round, in percent.
const CHANGES: u32 = 30;
const ROUNDS: usize = 12;
const CLIENTS: usize = 14;

/// A client with the sequence numbers in the answers of each side.
struct Client {
    author: Author,
    direct: Numbers,
    filtered: Numbers,
}

/// Sends a seed's requests in rounds, with all clients of a round at once, and compares the answers. Then compares the
/// documents. Returns the differences.
pub async fn run(scene: &SharedScene, seed: u64, naming: Naming, tally: &mut Tally) -> Vec<String> {
    let (mut rng, distribution) = (Rng::with_seed(seed), distribution());
    let mut changes = Vec::new();
    let client =
        |number| Client { author: Author::new(seed, number, naming), direct: Numbers::new(), filtered: Numbers::new() };
    let mut clients: Vec<Client> = (0..CLIENTS).map(client).collect();
    let mut differences = Vec::new();
    for change in &Change::FIRST {
        scene.change(change, distribution, seed).await;
    }
    for round in 0..ROUNDS {
        if rng.percent(CHANGES) {
            let change = Change::random(&mut rng, distribution);
            scene.change(&change, distribution, seed).await;
            tally.changes += 1;
            tally.pipelines += usize::from(matches!(change, Change::Pipeline(_)));
            changes.push((round, change));
        }
        let requests = requests(&mut rng, &mut clients, naming, round);
        let answers = exchange(scene, &clients, &requests).await;
        for (number, ((direct, filtered), request)) in answers.into_iter().zip(&requests).enumerate() {
            let client = &mut clients[number];
            let (direct, filtered) = match (direct, filtered) {
                (Ok(direct), Ok(filtered)) => (direct, filtered),
                (direct, filtered) => {
                    let outcome = |side: anyhow::Result<_>| side.map(|_| "an answer");
                    let (direct, filtered) = (outcome(direct), outcome(filtered));
                    differences.push(format!("round {round}, client {number}: {direct:?} and {filtered:?}\n{request}"));
                    continue;
                }
            };
            if [&direct, &filtered].into_iter().any(answer::lacks_a_new_index) {
                tally.ended_early += 1;
                scene.change(&Change::Deletion, distribution, seed).await;
                return differences;
            }
            answer::remember(&direct, Side::Direct, &mut client.direct);
            answer::remember(&filtered, Side::Filtered, &mut client.filtered);
            let (mut direct, mut filtered) =
                (Answer::read(&direct, Side::Direct), Answer::read(&filtered, Side::Filtered));
            if tally.pipelines > 0 && request.names_late() {
                direct.forget_ingest_time();
                filtered.forget_ingest_time();
            }
            if let Some(difference) = direct.difference(&filtered) {
                differences.push(format!("round {round}, client {number}: {difference}\n{request}"));
            }
            tally.requests += 1;
            tally.operations += request.body.operations;
            tally.items += direct.items();
            *tally.statuses.entry(direct.status()).or_default() += 1;
        }
    }
    let red = |(_, change): &(usize, Change)| if let Change::Red(red) = change { Some(*red) } else { None };
    let red = changes.iter().rev().find_map(red).unwrap_or(true);
    differences.extend(compare_documents(scene, seed, red, tally).await);
    scene.change(&Change::Deletion, distribution, seed).await;
    if let Some(first) = differences.first_mut() {
        *first = format!("after the changes {changes:?}: {first}");
    }
    differences
}

fn requests(rng: &mut Rng, clients: &mut [Client], naming: Naming, round: usize) -> Vec<Request> {
    let manner = |rng: &mut Rng| match rng.usize(0..100) {
        0..84 => Manner::Usual,
        84..94 => Manner::Special,
        _ => Manner::Odd,
    };
    let shared_manner = if rng.percent(88) { Manner::Usual } else { Manner::Special };
    let shared = Style::random(rng, shared_manner, naming);
    let request = |(number, client): (usize, &mut Client)| {
        let own_manner = manner(rng);
        let style = if rng.percent(85) { shared.clone() } else { Style::random(rng, own_manner, naming) };
        let manner = manner(rng);
        Request::random(rng, &style, manner, &mut client.author, round + number)
    };
    clients.iter_mut().enumerate().map(request).collect()
}

type Exchanged = anyhow::Result<bulk_reshuffle_stack::Response>;

/// Sends all requests concurrently, each to both sides.
async fn exchange(scene: &SharedScene, clients: &[Client], requests: &[Request]) -> Vec<(Exchanged, Exchanged)> {
    let send = |(client, request): (&Client, &Request)| {
        let direct = request.send(scene, Side::Direct, &client.direct);
        (direct, request.send(scene, Side::Filtered, &client.filtered))
    };
    let sent: Vec<_> = clients.iter().zip(requests).map(send).collect();
    let mut answers = Vec::new();
    for (direct, filtered) in sent {
        answers.push((direct.await.unwrap(), filtered.await.unwrap()));
    }
    answers
}

/// Compares all documents of a seed, except in indices that are red. Returns the differences.
async fn compare_documents(scene: &SharedScene, seed: u64, red: bool, tally: &mut Tally) -> Vec<String> {
    let (mut direct, mut filtered) =
        (scene.documents_of(Side::Direct, seed, red).await, scene.documents_of(Side::Filtered, seed, red).await);
    tally.documents += direct.values().sum::<usize>();
    if keeps_failures(distribution()) {
        let (mut more, mut others) =
            (scene.failures_of(Side::Direct, seed).await, scene.failures_of(Side::Filtered, seed).await);
        tally.failures += more.values().sum::<usize>();
        direct.append(&mut more);
        filtered.append(&mut others);
    }
    for (document, count) in &mut direct {
        let other = filtered.entry(document.clone()).or_default();
        let both = (*count).min(*other);
        *count -= both;
        *other -= both;
    }
    let left = |side: Side, documents: BTreeMap<String, usize>| {
        let left = documents.into_iter().filter(|(_, count)| *count > 0);
        left.map(|(document, count)| format!("{count} more at {side:?}: {document}")).collect::<Vec<_>>()
    };
    [left(Side::Direct, direct), left(Side::Filtered, filtered)].concat()
}

impl SharedScene {
    /// Returns a seed's documents in failure stores, each with its count.
    async fn failures_of(&self, side: Side, seed: u64) -> BTreeMap<String, usize> {
        let stores = self.direct(0, &format!("/.fs-{}-*", side.twin()));
        self.client.get(&format!("{stores}/_refresh?expand_wildcards=all")).await.unwrap().ok().unwrap();
        let newest = json!({"size": 10_000, "sort": [{"@timestamp": {"order": "desc", "unmapped_type": "date"}}]});
        let url = format!("{stores}/_search?expand_wildcards=all");
        let found = self.client.post_json(&url, &newest).await.unwrap().ok().unwrap().json().unwrap();
        assert_eq!(found["_shards"]["failed"], 0, "{}", found["_shards"]);
        let mut documents = BTreeMap::new();
        for hit in found["hits"]["hits"].as_array().unwrap() {
            let (document, error) = (&hit["_source"]["document"], &hit["_source"]["error"]);
            if document["source"]["owner"] == Author::owner(seed) {
                // The filter may have generated the id of a document that then fails.
                let id = document["id"].as_str().map_or_else(|| "generated".to_owned(), blur_id);
                let kept = json!([hit["_index"], id, document["index"], document["source"], error["type"]]).to_string();
                *documents.entry(kept.replace(side.twin(), "twin")).or_default() += 1;
            }
        }
        documents
    }

    /// Returns a seed's documents without the parts that may differ, each with its count.
    async fn documents_of(&self, side: Side, seed: u64, red: bool) -> BTreeMap<String, usize> {
        let twin = side.twin();
        let indices = format!("{twin}-*{}", if red { format!(",-{twin}-red") } else { String::new() });
        let refresh = self.direct(0, &format!("/{indices}/_refresh?expand_wildcards=open"));
        self.client.get(&refresh).await.unwrap().ok().unwrap();
        let query = json!({
            "size": 10_000, "version": true, "track_total_hits": true,
            "query": {"match": {"owner": Author::owner(seed)}},
        });
        let search = self.direct(0, &format!("/{indices}/_search?expand_wildcards=open"));
        let found = self.client.post_json(&search, &query).await.unwrap().ok().unwrap().json().unwrap();
        let found: Value = serde_json::from_str(&found.to_string().replace(twin, "twin")).unwrap();
        let hits = found["hits"]["hits"].as_array().unwrap();
        assert_eq!(found["hits"]["total"]["value"], hits.len(), "{}", found["_shards"]);
        assert_eq!(found["_shards"]["failed"], 0);
        let mut documents = BTreeMap::new();
        for hit in hits {
            let mut hit = hit.clone();
            hit["_score"] = Value::Null;
            blur(&mut hit);
            *documents.entry(hit.to_string()).or_default() += 1;
        }
        documents
    }
}
