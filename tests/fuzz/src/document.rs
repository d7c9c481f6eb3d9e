use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::document::{Target, location};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::pieces::line;

/// Checks the method in one line, and the path and the query of a request after it.
///
/// If the request stands for an operation, its action line must be one line, and if the reader vouches for it, then as
/// the same operation on the same document. The `Location` of that document must lead to it.
pub fn document(input: &[u8]) {
    let (method, path) = line(input);
    let Ok(path) = std::str::from_utf8(path) else { return };
    let Some(Ok(target)) = Target::read(method, path) else { return };
    assert!(Target::may_be_in(path.as_bytes()), "{path}");
    assert_eq!(Target::index_in(path.as_bytes()).as_ref(), Some(&target.index), "{path}");
    let (index, id) = (target.index.clone().into_owned(), target.id.clone().map(|id| id.into_owned()));
    let Ok(write) = target.into_write() else { return };
    let newlines = write.line.iter().filter(|byte| **byte == b'\n').count();
    assert!(newlines == 1 && write.line.ends_with(b"\n"), "{path}");
    assert!(!write.query.contains([' ', '\n', '\r']) || path.contains([' ', '\n', '\r']), "{path}");
    let Ok(read) = ActionLine::read(&write.line) else { return };
    let names = (read.index.as_deref(), read.id.as_deref(), read.routing.as_deref());
    assert_eq!(names, (Some(index.as_str()), id.as_deref(), write.routing.as_deref()), "{path}");
    assert_eq!((read.action, write.index.as_str()), (write.action, index.as_str()), "{path}");
    check_location(&index, &id.unwrap_or_else(|| "made".to_owned()), write.routing.as_deref());
}

fn check_location(index: &str, id: &str, routing: Option<&str>) {
    let answer = json!({"_index": index, "_id": id}).to_string();
    // Clusters have no longer names.
    let is_possible = index.len() <= 255 && id.len() <= 512;
    let location = location(answer.as_bytes(), routing);
    assert_eq!(location.is_some(), is_possible, "{location:?}");
    let Some(location) = location else { return };
    assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location}");
    let (path, query) = location.split_once('?').map_or((location.as_str(), None), |(path, query)| (path, Some(query)));
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().expect("UTF-8").into_owned();
    let names: Vec<String> = path.split('/').map(decoded).collect();
    assert_eq!(names, ["", index, "_doc", id], "{location}");
    assert_eq!(query.map(|query| decoded(query.trim_start_matches("routing="))), routing.map(str::to_owned));
}
