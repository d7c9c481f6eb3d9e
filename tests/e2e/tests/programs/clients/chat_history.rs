//! LangChain's chat history, which writes each message in a request with `refresh=true`.

use std::collections::BTreeMap;
use std::process::Stdio;

use bulk_reshuffle_stack::Distribution::Elasticsearch8;
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

use crate::documents::documents;
use crate::execution::{self, bare};
use crate::shared_scene::SharedScene;

/// The conversations, each in a thread of the program.
const SESSIONS: [&str; 8] = ["ann", "bob", "cem", "dan", "eve", "fay", "gus", "hal"];

/// The number of messages of each conversation.
const MESSAGES: usize = 12;

/// A conversation: the messages with their kinds, in order.
type Conversation = Vec<(String, String)>;

fn conversation(session: &str) -> Conversation {
    let kind = |n| if n % 2 == 0 { "human" } else { "ai" };
    (0..MESSAGES).map(|n| (kind(n).to_owned(), format!("{session} says “{n}”\nin two lines"))).collect()
}

/// Checks that each conversation reads its own messages after each write, and that all writes were merged.
pub async fn check() {
    let scene = SharedScene::start_in_front_of(Elasticsearch8, "chat-history", json!({"single_documents": true})).await;
    scene.index("chat-history", json!({})).await;
    let before = scene.counts().await;
    let tools = Tools::find().unwrap();
    let mut program = bare("python3");
    program
        .arg(tools.root.join("tests/clients/python/chat_history.py"))
        .args([&scene.envoy.url(""), "chat-history", &MESSAGES.to_string()])
        .args(SESSIONS)
        .env("PYTHONPATH", tools.folder("langchain-elasticsearch").unwrap());
    let printed = execution::run("chat_history.py", program, Stdio::null()).await.unwrap();

    let expected: BTreeMap<_, _> = SESSIONS.map(|session| (session.to_owned(), conversation(session))).into();
    let read = |line: &str| -> (String, Conversation) {
        let line: Value = serde_json::from_str(line).expect(line);
        (text(&line["session"]), serde_json::from_value(line["messages"].clone()).unwrap())
    };
    assert_eq!(printed.lines().map(read).collect::<BTreeMap<_, _>>(), expected);
    let mut sources: Vec<_> = documents(&scene.client, &scene.direct(0, ""), "chat-history").await.unwrap();
    sources.sort_by_key(|document| document.source["created_at"].as_u64());
    let mut stored = BTreeMap::<String, Conversation>::new();
    for document in sources {
        let message: Value = serde_json::from_str(document.source["history"].as_str().unwrap()).unwrap();
        let conversation = stored.entry(text(&document.source["session_id"])).or_default();
        conversation.push((text(&message["type"]), text(&message["data"]["content"])));
    }
    assert_eq!(stored, expected);
    let counted = scene.counts().await.since(&before);
    counted.check_split("chat history");
    assert_eq!(counted.single_documents, (SESSIONS.len() * MESSAGES) as u64);
    let batches: u64 = counted.batches.values().sum();
    assert!(batches < counted.single_documents, "no messages shared a batch");
    scene.end().await;
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
