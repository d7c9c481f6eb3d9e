use super::{FilterPath, Verdict, write_selected};

/// Builds the answer to one request from items, in the request's order, with the fields that the client requests.
#[derive(Debug)]
pub struct Reply<'a> {
    body: Vec<u8>,
    items: Verdict<'a>,
    any_item: bool,
    /// The unfiltered item.
    whole: Vec<u8>,
}

/// The text around the items, after other fields.
const ITEMS: &str = r#","items":[]}"#;

/// The fields before the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// The time of the request, in milliseconds.
    pub took: u64,
    /// The time of the ingest pipelines, in milliseconds, if the request's operations were under any.
    pub ingest_took: Option<u64>,
    /// Whether any item reports an error.
    pub errors: bool,
    /// Whether `errors` comes before `took`. Clusters use both orders.
    pub errors_first: bool,
}

impl<'a> Reply<'a> {
    /// Creates a reply without items. If all items are shown, it allocates exactly the bytes needed for `items` items
    /// of `bytes` bytes in total. Otherwise it grows as needed, up to that size.
    pub fn new(head: ReplyHead, filter_path: &'a FilterPath, items: usize, bytes: usize) -> Self {
        let selection = filter_path.selection();
        let shown = selection.field("items");
        let took = head.took.to_string();
        let mut fields = [("took", took.as_str()), ("errors", if head.errors { "true" } else { "false" })];
        if head.errors_first {
            fields.reverse();
        }
        let is_kept = |name: &str| selection.field(name).keeps_scalars();
        let kept = fields.map(|(name, _)| is_kept(name));
        let shown_fields = || fields.iter().zip(kept).filter_map(|(field, is_kept)| is_kept.then_some(field));
        let ingest_took = head.ingest_took.filter(|_| is_kept("ingest_took")).map(|time| time.to_string());
        // The four bytes are two quotes, a colon, and a comma or the brace.
        let mut capacity = shown_fields().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
        capacity += ingest_took.as_ref().map_or(0, |time| "ingest_took".len() + time.len() + 4);
        if shown == Verdict::Kept {
            let separators = items.saturating_sub(1);
            capacity = capacity.saturating_add(ITEMS.len()).saturating_add(separators).saturating_add(bytes);
        }
        let mut reply = Self { body: Vec::with_capacity(capacity), items: shown, any_item: false, whole: Vec::new() };
        reply.body.push(b'{');
        for ((name, value), is_kept) in fields.iter().zip(kept) {
            if is_kept {
                reply.key(name);
                reply.body.extend_from_slice(value.as_bytes());
            }
            if let Some(time) = ingest_took.as_ref().filter(|_| *name == "took") {
                reply.key("ingest_took");
                reply.body.extend_from_slice(time.as_bytes());
            }
        }
        reply
    }

    /// Adds the next item; `write` appends the item's JSON.
    pub fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.body.len();
        self.separate();
        let written = match &self.items {
            Verdict::Kept => {
                write(&mut self.body);
                true
            }
            Verdict::Dropped => false,
            Verdict::Filtered { inside, .. } => {
                self.whole.clear();
                write(&mut self.whole);
                serde_json::from_slice(&self.whole).is_ok_and(|item| write_selected(item, inside, &mut self.body))
            }
        };
        if written {
            self.any_item = true;
        } else {
            self.body.truncate(before);
        }
    }

    /// Returns the reply's body.
    pub fn finish(mut self) -> Vec<u8> {
        if self.any_item {
            self.body.push(b']');
        } else if self.items == Verdict::Kept {
            self.separate();
            self.body.push(b']');
        }
        self.body.push(b'}');
        self.body
    }

    /// Appends the text before an item.
    fn separate(&mut self) {
        if self.any_item {
            self.body.push(b',');
        } else {
            self.key("items");
            self.body.push(b'[');
        }
    }

    fn key(&mut self, name: &str) {
        if self.body.len() > 1 {
            self.body.push(b',');
        }
        self.body.push(b'"');
        self.body.extend_from_slice(name.as_bytes());
        self.body.extend_from_slice(b"\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(errors: bool, errors_first: bool, items: &[&str]) -> String {
        filtered("", errors, errors_first, items)
    }

    fn filtered(filter_path: &str, errors: bool, errors_first: bool, items: &[&str]) -> String {
        let filter_path = FilterPath::parse(filter_path).unwrap();
        let bytes = items.iter().map(|item| item.len()).sum();
        let head = ReplyHead { took: 12, ingest_took: None, errors, errors_first };
        let mut reply = Reply::new(head, &filter_path, items.len(), bytes);
        for text in items {
            reply.item(|to| to.extend_from_slice(text.as_bytes()));
        }
        let body = reply.finish();
        assert!(!filter_path.is_empty() || body.capacity() == body.len(), "{} of {}", body.len(), body.capacity());
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn joins_items_in_order() {
        assert_eq!(reply(false, false, &["{1}", "{2}"]), r#"{"took":12,"errors":false,"items":[{1},{2}]}"#);
        assert_eq!(reply(true, true, &["{1}"]), r#"{"errors":true,"took":12,"items":[{1}]}"#);
        assert_eq!(reply(false, false, &[]), r#"{"took":12,"errors":false,"items":[]}"#);
    }

    #[test]
    fn equals_filtering_the_whole_answer() {
        let items = [r#"{"index":{"_id":"1","status":200}}"#, r#"{"delete":{"_id":"2","error":{"type":"t"}}}"#];
        for filter_path in
            ["took", "errors,items.*.error", "items.*.status", "**.type", "-took", "-items.index", "-*", "*"]
        {
            for errors_first in [true, false] {
                let whole = reply(true, errors_first, &items);
                let expected = FilterPath::parse(filter_path).unwrap().apply(whole.as_bytes()).unwrap();
                let filtered = filtered(filter_path, true, errors_first, &items);
                assert_eq!(filtered, String::from_utf8(expected).unwrap(), "{filter_path}");
            }
        }
        assert_eq!(filtered("items.*.error", false, false, &items[..1]), "{}");
    }
}
