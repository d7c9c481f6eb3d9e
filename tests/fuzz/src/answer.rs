use bulk_reshuffle::bulk::{Action, Answer, AnswerItem, FilterPath, Reply, ReplyHead};
use bulk_reshuffle::routing::hash;
use serde_json::{Map, Value};

const ACTIONS: [Action; 4] = [Action::Index, Action::Create, Action::Update, Action::Delete];

/// Checks a node's answer to a batch.
///
/// The items must be those that an independent JSON reader finds, in their order and unchanged. Everything that this
/// reader accepts as a bulk answer must be accepted. Items merged into a reply must be found again in it.
pub fn answer(input: &[u8]) {
    let value: Option<Value> = serde_json::from_slice(input).ok();
    if let Ok(answer) = Answer::read(input.to_vec(), input.len()) {
        // The independent reader may reject values that the filter ignores: nested too deeply, or half a character.
        if let Some(value) = &value {
            check_items(&answer, value);
        }
        check_places(&answer, input);
        check_reply(&answer);
    }
    if let Some(value) = value.filter(is_bulk_answer) {
        // This text has no duplicate keys.
        let text = value.to_string();
        let answer = Answer::read(text.clone().into_bytes(), text.len()).expect("a bulk answer was rejected");
        check_items(&answer, &serde_json::from_str(&text).expect("JSON"));
    }
}

fn check_items(answer: &Answer, value: &Value) {
    let items = value["items"].as_array().expect("the answer has no items");
    assert_eq!(answer.took, value.get("took").map_or(0, |took| took.as_u64().expect("took is not a number")));
    let ingest_took = value.get("ingest_took").map(|took| took.as_u64().expect("ingest_took is not a number"));
    assert_eq!(answer.ingest_took, ingest_took);
    assert_eq!(answer.items.len(), items.len());
    for (item, value) in answer.items.iter().zip(items) {
        let text: Value = serde_json::from_slice(answer.text(item)).expect("an item is not JSON");
        assert_eq!(&text, value);
        let (action, fields) = action(value).expect("an item without an action");
        let id = fields.get("_id").and_then(Value::as_str).map(hash);
        let failed = fields.get("error").is_some_and(|error| !error.is_null());
        assert_eq!((item.action, item.id_hash, item.failed), (action, id, failed), "{value}");
    }
}

/// Checks that the items follow one another.
fn check_places(answer: &Answer, input: &[u8]) {
    let mut left = input;
    for item in &answer.items {
        let text = answer.text(item);
        let at = left.windows(text.len()).position(|window| window == text).expect("an item is not in the answer");
        left = &left[at + text.len()..];
    }
}

/// Returns the part of a reply with all items of an answer that a client requests, built item by item.
pub(crate) fn reply(answer: &Answer, filter_path: &FilterPath, errors: bool) -> Vec<u8> {
    let Answer { took, ingest_took, errors_first, .. } = *answer;
    let head = ReplyHead { took, ingest_took, errors, errors_first };
    let bytes = answer.items.iter().map(|item| answer.text(item).len()).sum();
    let mut reply = Reply::new(head, filter_path, answer.items.len(), bytes);
    for item in &answer.items {
        reply.item(|to| to.extend_from_slice(answer.text(item)));
    }
    reply.finish()
}

fn check_reply(answer: &Answer) {
    let Answer { took, ingest_took, errors_first, .. } = *answer;
    let body = reply(answer, &FilterPath::default(), false);
    assert_eq!(body.capacity(), body.len(), "a reply takes more memory than it has bytes");
    let again = Answer::read(body, answer.items.len()).expect("a reply is not a bulk answer");
    let texts = |answer: &Answer| answer.items.iter().map(|item| answer.text(item).to_vec()).collect::<Vec<_>>();
    assert_eq!(texts(&again), texts(answer));
    let facts = |item: &AnswerItem| (item.action, item.id_hash, item.failed);
    assert!(again.items.iter().map(facts).eq(answer.items.iter().map(facts)));
    assert_eq!((again.took, again.ingest_took, again.errors_first), (took, ingest_took, errors_first));
}

fn is_bulk_answer(value: &Value) -> bool {
    let is_item = |item: &Value| {
        action(item).is_some_and(|(_, fields)| {
            let is_text = |name| fields.get(name).is_none_or(|value: &Value| value.is_string() || value.is_null());
            let status = fields.get("status").and_then(Value::as_u64);
            is_text("_id") && is_text("_index") && status.is_some_and(|status| u16::try_from(status).is_ok())
        })
    };
    value.is_object()
        && ["took", "ingest_took"].iter().all(|name| value.get(name).is_none_or(Value::is_u64))
        && value["items"].as_array().is_some_and(|items| items.iter().all(is_item))
}

fn action(item: &Value) -> Option<(Action, &Map<String, Value>)> {
    let mut fields = item.as_object()?.iter();
    let (name, fields) = fields.next().filter(|_| item.as_object().is_some_and(|item| item.len() == 1))?;
    let action = ACTIONS.into_iter().find(|action| action.name() == name)?;
    Some((action, fields.as_object()?))
}
