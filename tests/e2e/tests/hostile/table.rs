use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use comfy_table::{Table, presets};

/// What one hostile client did, and what it cost.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was sent.
    pub sent: String,
    /// Bytes on the wire.
    pub wire: usize,
    /// What the hostile client got.
    pub sender: String,
    /// How long the other client waited, and how long it does alone.
    pub others: String,
    /// The VM's memory, and its bound.
    pub memory: String,
    /// What went wrong.
    pub faults: Vec<String>,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

impl Row {
    /// Adds it to the table.
    pub fn record(self) {
        ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    fn verdict(&self) -> String {
        match self.faults.is_empty() {
            true => "held".into(),
            false => self.faults.join("; "),
        }
    }
}

/// Tests run in the order of their names, one at a time, and this module's name is the last.
#[test]
fn every_line_is_held() -> Result<()> {
    let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["what is sent", "bytes", "its sender gets", "another client waits", "VM memory", "verdict"]);
    for row in &rows {
        let wire = row.wire.to_string();
        table.add_row([&row.sent, &wire, &row.sender, &row.others, &row.memory, &row.verdict()]);
    }
    println!("\n{table}");
    let broken = rows.iter().filter(|row| !row.faults.is_empty()).count();
    ensure!(broken == 0, "{broken} of {} lines are not held", rows.len());
    Ok(())
}
