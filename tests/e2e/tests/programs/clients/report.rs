//! The output of a program, which contains the report of its client's helper.

use serde_json::Value;

use super::operation::Operation;

/// The output of a program.
pub struct Report {
    items: Vec<Value>,
    succeeded: usize,
    failed: usize,
}

/// The operations that a helper reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    All,
    Failed,
}

impl Report {
    pub fn parse(text: &str) -> Self {
        let mut items: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let counts = items.pop().expect("a last line");
        let count = |name: &str| usize::try_from(counts[name].as_u64().expect(name)).unwrap();
        Self { items, succeeded: count("succeeded"), failed: count("failed") }
    }

    /// Checks that every operation is reported once, with its own outcome.
    pub fn check(&self, operations: &[Operation], told: Told, has_versions: bool) {
        let good = operations.iter().filter(|operation| operation.is_good()).count();
        assert_eq!((self.succeeded, self.failed), (good, operations.len() - good));
        let expected = operations.iter().filter(|operation| told == Told::All || !operation.is_good());
        assert_eq!(self.items.len(), expected.clone().count());
        for operation in expected {
            let items: Vec<&Value> = self.items.iter().filter(|item| is_about(item, operation)).collect();
            let [item] = items.as_slice() else { panic!("{operation:?} was reported by {items:?}") };
            check_item(item, operation);
            if has_versions {
                let version = operation.version();
                assert!(version.is_none() || item["version"].as_u64() == version, "{item} for {operation:?}");
            }
        }
    }
}

fn is_about(item: &Value, operation: &Operation) -> bool {
    match item["n"].as_u64() {
        Some(n) => n == operation.n as u64,
        // Only the cluster's answer identifies the operation.
        None => item["id"].as_str() == operation.id.as_deref(),
    }
}

fn check_item(item: &Value, operation: &Operation) {
    assert_eq!(
        (&item["action"], &item["status"]),
        (&operation.action.into(), &operation.status.into()),
        "{operation:?}"
    );
    match (&operation.id, item["id"].as_str()) {
        (Some(id), told) => assert_eq!(told, Some(id.as_str()), "{operation:?}"),
        (None, told) => assert!(told.is_some_and(|id| id.len() == 20), "{item}"),
    }
    match (operation.error, item["error"].as_str()) {
        (None, None) => {}
        (Some(error), Some(name)) => assert!(error.is_called(name), "{item} for {operation:?}"),
        _ => panic!("{item} for {operation:?}"),
    }
}
