/// Puts the answer to one request together out of items, in the request's order.
#[derive(Debug)]
pub struct Reply {
    body: Vec<u8>,
    empty: bool,
}

/// What stands before the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// Milliseconds.
    pub took: u64,
    /// Whether any item reports an error.
    pub errors: bool,
    /// Which of the two orders that clusters use.
    pub errors_first: bool,
}

impl Reply {
    /// A reply without items yet, with room for this many bytes of them.
    pub fn new(head: ReplyHead, capacity: usize) -> Self {
        let ReplyHead { took, errors, errors_first } = head;
        let head = match errors_first {
            true => format!("{{\"errors\":{errors},\"took\":{took},\"items\":["),
            false => format!("{{\"took\":{took},\"errors\":{errors},\"items\":["),
        };
        let mut body = Vec::with_capacity(capacity.saturating_add(head.len()).saturating_add(2));
        body.extend_from_slice(head.as_bytes());
        Self { body, empty: true }
    }

    /// Adds the next item; `write` appends its JSON.
    pub fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !std::mem::take(&mut self.empty) {
            self.body.push(b',');
        }
        write(&mut self.body);
    }

    /// The reply's body.
    pub fn finish(mut self) -> Vec<u8> {
        self.body.extend_from_slice(b"]}");
        self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(errors: bool, errors_first: bool, items: &[&str]) -> String {
        let mut reply = Reply::new(ReplyHead { took: 12, errors, errors_first }, 0);
        for text in items {
            reply.item(|to| to.extend_from_slice(text.as_bytes()));
        }
        String::from_utf8(reply.finish()).unwrap()
    }

    #[test]
    fn joins_items_in_order() {
        assert_eq!(reply(false, false, &["{1}", "{2}"]), r#"{"took":12,"errors":false,"items":[{1},{2}]}"#);
        assert_eq!(reply(true, true, &["{1}"]), r#"{"errors":true,"took":12,"items":[{1}]}"#);
        assert_eq!(reply(false, false, &[]), r#"{"took":12,"errors":false,"items":[]}"#);
    }
}
