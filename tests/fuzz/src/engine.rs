use std::time::Duration;

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::Response;

use crate::pieces::{gzip, line};
use crate::run::Run;

/// The configuration for inputs whose first line is not one.
const CONFIG: &[u8] = br#"{"coordinator":"es","limits":{"memory":"3kb","max_request":"2kb"}}"#;

/// Checks an engine. The first line is a configuration, and each further line an event: its name (the first letter
/// decides), the number of its request or call, and its parameters.
///
/// ```text
/// cold                                            only as the first event: the cluster state is not known yet
/// head 0 /_bulk authorization: Basic a; x: y      a request: the path, possibly further headers
/// data 0 {"index":{"_index":"i","_id":"1"}}|      a piece of its body; | stands for a newline
/// last 0 {}|                                      its last piece
/// zip 0 …                                         a piece that is a gzip member
/// bomb 0 …                                        a gzip member of a thousand times this text
/// end 0                                           the body ends with trailers
/// gone 0                                          its client leaves
/// well 0                                          a call is answered as a cluster would
/// answer 0 429 …                                  a call is answered with this status and body
/// text 0 503 …                                    the same in plain text, as Envoy does
/// fail 0, unsent 0                                a call fails, or was not sent
/// old 0                                           an answer that no call is waiting for
/// run                                             a wake-up
/// pause 50                                        time passes, in milliseconds, then a tick
/// ```
/// For all events, each request is answered or passed through at most once, with its own body. Memory stays within its
/// limit. After the last event everything ends.
pub fn engine(input: &[u8]) {
    let (config, events) = line(input);
    let config = Config::read(config).or_else(|_| Config::read(CONFIG)).expect("a configuration");
    let mut run = Run::new(config);
    if !events.starts_with(b"cold") {
        run.load();
    }
    for event in events.split(|byte| *byte == b'\n') {
        happen(&mut run, event);
    }
    run.end();
}

fn happen(run: &mut Run, event: &[u8]) {
    let (what, rest) = word(event);
    let (number, rest) = word(rest);
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(0_u32);
    let one = number as usize;
    match what.first() {
        Some(b'h') => head(run, rest),
        Some(b'd') => run.data(one, text(rest), false),
        Some(b'l') => run.data(one, text(rest), true),
        Some(b'z') => run.data(one, gzip(&text(rest)), false),
        Some(b'b') => run.data(one, gzip(&text(rest).repeat(1000)), false),
        Some(b'e') => run.trailers(one),
        Some(b'g') => run.gone(one),
        Some(b'w') => run.answer_well(one),
        Some(b'a') => run.answer(one, response("application/json", rest)),
        Some(b't') => run.answer(one, response("text/plain", rest)),
        Some(b'f') => run.fail(one, true),
        Some(b'u') => run.fail(one, false),
        Some(b'o') => run.answer_unknown(number),
        Some(b'r') => run.wake(),
        Some(b'p') => run.tick(Duration::from_millis(u64::from(number))),
        _ => {}
    }
}

fn head(run: &mut Run, rest: &[u8]) {
    let (path, more) = word(rest);
    let mut headers: Vec<(&str, &[u8])> =
        vec![(":method", b"POST"), (":path", path), (":authority", b"es"), ("content-type", b"application/json")];
    for header in more.split(|byte| *byte == b';') {
        let colon = header.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|colon| header.split_at_checked(colon)) else { continue };
        let Ok(name) = std::str::from_utf8(name.trim_ascii()) else { continue };
        headers.push((name, value[1..].trim_ascii()));
    }
    run.head(&headers, more == b"!");
}

/// A status and a body.
fn response(content_type: &str, rest: &[u8]) -> Response {
    let (status, body) = word(rest);
    let status = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok()).unwrap_or(200);
    Response { status, headers: [("content-type".to_owned(), content_type.to_owned())].into(), body: text(body) }
}

fn text(rest: &[u8]) -> Vec<u8> {
    rest.iter().map(|byte| if *byte == b'|' { b'\n' } else { *byte }).collect()
}

fn word(rest: &[u8]) -> (&[u8], &[u8]) {
    match rest.iter().position(|byte| *byte == b' ') {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &[]),
    }
}
