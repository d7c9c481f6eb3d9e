use fastrand::Rng;

use super::chance::Chance;

/// Action lines that are, or look, invalid. `ID` stands for one of the client's own ids.
const ODD: &[&str] = &[
    r#"{"index":{"_id":"ID"}"#,
    r#"{"index":{"_id":"ID"}}}"#,
    r#"index ID"#,
    r#"{}"#,
    r#"[]"#,
    r#"null"#,
    r#""index""#,
    r#"{"index":null}"#,
    r#"{"index":[]}"#,
    r#"{"index":"ID"}"#,
    r#"{"upsert":{"_id":"ID"}}"#,
    r#"{"INDEX":{"_id":"ID"}}"#,
    r#"{"index":{"_id":"ID","colour":"red"}}"#,
    r#"{"index":{"_id":"ID","_type":"_doc"}}"#,
    r#"{"index":{"_id":"ID","_type":"other"}}"#,
    r#"{"index":{"_id":"ID","_routing":"a"}}"#,
    r#"{"index":{"_id":"ID","_version":3}}"#,
    r#"{"index":{"_id":"ID","op_type":"create"}}"#,
    r#"{"index":{"_id":"ID","op_type":"delete"}}"#,
    r#"{"index":{"_id":"ID","version":3}}"#,
    r#"{"index":{"_id":"ID","version":"x","version_type":"external"}}"#,
    r#"{"index":{"_id":"ID","if_seq_no":3}}"#,
    r#"{"index":{"_id":"ID","if_seq_no":-3,"if_primary_term":1}}"#,
    r#"{"create":{"_id":"ID","if_seq_no":3,"if_primary_term":1}}"#,
    r#"{"create":{"_id":"ID","version":3,"version_type":"external"}}"#,
    r#"{"index":{"_id":"ID","retry_on_conflict":3}}"#,
    r#"{"index":{"_id":"ID","retry_on_conflict":"x"}}"#,
    r#"{"index":{"_id":"ID","require_alias":"yes"}}"#,
    r#"{"index":{"_id":"ID","require_alias":"true"}}"#,
    r#"{"index":{"_id":"ID","pipeline":null}}"#,
    r#"{"index":{"_id":"ID","dynamic_templates":{"a":"b"}}}"#,
    r#"{"index":{"_id":"ID","routing":null}}"#,
    r#"{"index":{"_id":"ID","routing":""}}"#,
    r#"{"index":{"_id":"ID","routing":true}}"#,
    r#"{"index":{"_id":"ID","routing":["a","b"]}}"#,
    r#"{"index":{"_id":"ID","routing":"a,b"}}"#,
    r#"{"index":{"_id":["ID"]}}"#,
    r#"{"index":{"_id":{"a":"ID"}}}"#,
    r#"{"index":{"_id":""}}"#,
    r#"{"index":{"_id":null}}"#,
    r#"{"index":{"_id":-0}}"#,
    r#"{"index":{"_id":1.50}}"#,
    r#"{"index":{"_id":1e3}}"#,
    r#"{"index":{"_id":true}}"#,
    r#"{"index":{"_id":123456789012345678901234567890}}"#,
    r#"{"index":{"_id":-9223372036854775809}}"#,
    r#"{"index":{"_id":"\ud83d"}}"#,
    r#"{"index":{"_id":"ID","_id":"ID-2"}}"#,
    r#"{"index":{"_index":"","_id":"ID"}}"#,
    r#"{"index":{"_index":null,"_id":"ID"}}"#,
    r#"{"index":{"_index":17,"_id":"ID"}}"#,
    r#"{"index":{"_id":"ID"},"delete":{"_id":"ID"}}"#,
    r#"{"index":{"_id":"ID"},"x":1}"#,
    r#"{"index":{"_id":"ID"}} x"#,
    r#"{"index":{"_id":"ID"}} {"a":1}"#,
    r#"{"index":{"_id":"ID"}},"#,
    r#"{'index':{'_id':'ID'}}"#,
    r#"{index:{_id:"ID"}}"#,
    r#"/* a */ {"index":{"_id":"ID"}}"#,
    r#"{"\u0069ndex":{"\u005fid":"ID"}}"#,
    r#"{"index":{"_id":"ID"}}  "#,
    "\t {\t\"index\"\r:\t{ \"_id\" : \"ID\" } }\t",
    "\u{feff}{\"index\":{\"_id\":\"ID\"}}",
    "\u{a0}{\"index\":{\"_id\":\"ID\"}}",
    "\u{b}{\"index\":{\"_id\":\"ID\"}}",
    "\u{c}{\"index\":{\"_id\":\"ID\"}}",
    "{\"index\":{\"_id\":\"ID\u{0}\"}}",
    "{\"index\":{\"_id\":\"ID\\u0000\"}}",
    "{\"index\":{\"_id\":\"ID\"}}\u{0}",
    "{\"index\":{\"_id\":\"ID\u{1}\"}}",
    "{\"index\":{\"_id\":\"ID\u{7f}\"}}",
    "",
    "   ",
    "\r",
    "\t\r",
];

/// Documents that are, or look, invalid.
const ODD_SOURCES: &[&str] = &[
    "",
    " ",
    "\r",
    "{",
    "}",
    "[1]",
    "7",
    "null",
    "\"text\"",
    "{}",
    "{} ",
    "{}}",
    "{} {}",
    "{\"n\":",
    "{\"n\":1,}",
    "{\"n\":01}",
    "{\"n\":NaN}",
    "{\"n\":1,\"n\":2}",
    "{\"\":1}",
    "{\" \":1}",
    "{\"a.\":1}",
    "{\".\":1}",
    "{\"n\":1\u{0}}",
    "{\"text\":\"\u{0}\"}",
    "{\"text\":\"\\ud83d\"}",
    "\u{feff}{\"n\":1}",
    "{'n':1}",
    "{\"n\":1}//",
    "{\"_source\":{\"n\":1}}",
    "---",
    ":)\n",
];

/// Bodies of updates that are, or look, invalid.
const ODD_UPDATES: &[&str] = &[
    "",
    "[]",
    "{}",
    "{\"doc\":[]}",
    "{\"doc\":null}",
    "{\"doc\":{\"n\":1}",
    "{\"doc\":{\"n\":1}} {}",
    "{\"doc\":{\"n\":1}} x",
    "{\"doc\":{\"n\":1,\"n\":2}}",
    "{\"doc\":{\"n\":1},\"doc\":{\"n\":2}}",
    "{\"docs\":{}}",
    "{\"doc\":{},\"script\":{\"source\":\"x\"}}",
    "{\"doc\":{},\"upsert\":{},\"doc_as_upsert\":true}",
    "{\"doc\":{},\"doc_as_upsert\":\"true\"}",
    "{\"doc\":{},\"doc_as_upsert\":1}",
    "{\"doc\":{},\"detect_noop\":null}",
    "{\"doc\":{},\"scripted_upsert\":true}",
    "{\"doc\":{},\"lang\":\"painless\"}",
    "{\"doc\":{},\"_source\":[\"n\"]}",
    "{\"doc\":{},\"if_seq_no\":1,\"if_primary_term\":1}",
    "{\"script\":\"ctx.op = 'none'\"}",
    "{\"script\":{}}",
    "{\"script\":{\"source\":\"x\",\"id\":\"y\"}}",
    "{\"script\":{\"source\":\"x\"},\"params\":{}}",
    "{\"upsert\":{\"n\":1}}",
    "{\"doc_as_upsert\":true}",
    "{\"doc\":{\"n\":1.0e400}}",
    "{\"doc\":{\"n\":\"\\ud83d\"}}",
];

/// Returns an odd replacement of a usual operation, or of a part of it.
pub fn instead_of(rng: &mut Rng, usual: &[u8], id: &str) -> Vec<u8> {
    let source = format!("{{\"owner\":\"{}\",\"n\":1}}\n", id.split('-').next().unwrap_or_default());
    let operation = |line: &[u8], source: &str| [line, b"\n", source.as_bytes()].concat();
    let first_line = usual.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match rng.usize(0..20) {
        0..9 => operation(rng.one_of(ODD).replace("ID", id).as_bytes(), &source),
        9..12 => {
            let action = rng.one_of(&["index", "create"]);
            operation(format!("{{\"{action}\":{{\"_id\":\"{id}\"}}}}").as_bytes(), rng.one_of(ODD_SOURCES))
                .into_iter()
                .chain([b'\n'])
                .collect()
        }
        12..15 => {
            let line = format!("{{\"update\":{{\"_id\":\"{id}\"}}}}");
            operation(line.as_bytes(), &format!("{}\n", rng.one_of(ODD_UPDATES)))
        }
        15 => operation(&[b"{\"index\":{\"_id\":\"", id.as_bytes(), b"\xff\xfe\"}}"].concat(), &source),
        16 => [b"{\"index\":{\"_id\":\"", id.as_bytes(), b"\"}}\n{\"text\":\"\xff\xfe\"}\n"].concat(),
        17 => {
            let long = "y".repeat(rng.one_of(&[505, 512, 513, 600, 9_000]));
            operation(format!("{{\"index\":{{\"_id\":\"{id}{long}\"}}}}").as_bytes(), &source)
        }
        18 => {
            let action = rng.one_of(&["delete", "update"]);
            operation(format!("{{\"{action}\":{{}}}}").as_bytes(), "{\"doc\":{}}\n")
        }
        // One line too few, or one too many.
        _ if rng.bool() => first_line.iter().copied().chain([b'\n']).collect(),
        _ => [usual, source.as_bytes()].concat(),
    }
}

/// Returns the same operation with insignificant line ends and blank lines.
pub fn with_strange_ends(rng: &mut Rng, operation: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for line in operation.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = line.split_at(line.len() - 1);
        lines.extend_from_slice(text);
        lines.extend_from_slice(rng.one_of(&[&b""[..], b"\r", b" ", b" \t\r"]));
        lines.extend_from_slice(end);
    }
    if rng.percent(30) {
        let blank = rng.one_of(&[&b"\n"[..], b"\r\n", b"  \n"]);
        lines = [blank, &lines].concat();
    }
    lines
}

/// Truncates a body, or appends to it.
pub fn break_end(rng: &mut Rng, body: &mut Vec<u8>) {
    match rng.usize(0..5) {
        0 => body.truncate(body.len() - 1),
        1 => body.truncate(rng.usize(0..body.len())),
        2 => body.clear(),
        3 => body.extend_from_slice(b"\n\n"),
        _ => body.extend_from_slice(b"  "),
    }
    // Do not leave an incomplete placeholder of a name or a number.
    if body.iter().filter(|byte| **byte == b'~').count() % 2 == 1 {
        let cut = body.iter().rposition(|byte| *byte == b'~').unwrap_or_default();
        body.truncate(cut);
    }
}
