//! The answers of nodes.

use std::fmt::Write;

/// Returns an OpenSearch node's answer to a batch whose documents are all new, given their indices and ids.
pub fn answer<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut body = String::from(r#"{"took":12,"errors":false,"items":["#);
    for (number, (index, id)) in documents.into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            r#"{comma}{{"index":{{"_index":"{index}","_id":"{id}","_version":1,"result":"created","_shards":{{"total":1,"successful":1,"failed":0}},"_seq_no":{number},"_primary_term":1,"status":201}}}}"#
        );
    }
    body.push_str("]}");
    body.into_bytes()
}

/// Returns the indices and ids in a batch, in its order.
pub fn documents(batch: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let lines = std::str::from_utf8(batch).unwrap_or_default().lines();
    lines.step_by(2).filter_map(|line| Some((value(line, "_index")?, value(line, "_id")?)))
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(&format!("\"{name}\":\"")).nth(1)?.split('"').next()
}
