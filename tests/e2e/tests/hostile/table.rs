use std::sync::Mutex;

use anyhow::{Result, ensure};
use comfy_table::{Table, presets};

#[derive(Debug, Clone)]
pub struct Row {
    /// A description of the hostile requests.
    pub sent: String,
    /// The number of bytes on the wire.
    pub wire: usize,
    /// The answers that the hostile client got.
    pub sender: String,
    /// The other client's highest latency during the test and when alone.
    pub others: String,
    /// The VM's peak memory and its bound.
    pub memory: String,
    /// The violated bounds.
    pub faults: Vec<String>,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

impl Row {
    pub fn record(self) {
        ROWS.lock().unwrap().push(self);
    }

    fn verdict(&self) -> String {
        match self.faults.is_empty() {
            true => "held".into(),
            false => self.faults.join("; "),
        }
    }
}

/// Prints the table. Tests run one after the other in the order of their names, and this module's name is the last.
#[test]
fn the_table_has_no_violations() -> Result<()> {
    let rows = ROWS.lock().unwrap().clone();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["request", "bytes", "answer", "other client's latency", "VM memory", "verdict"]);
    for row in &rows {
        let wire = row.wire.to_string();
        table.add_row([&row.sent, &wire, &row.sender, &row.others, &row.memory, &row.verdict()]);
    }
    println!("\n{table}");
    let broken = rows.iter().filter(|row| !row.faults.is_empty()).count();
    ensure!(broken == 0, "{broken} of {} tests violate a bound", rows.len());
    Ok(())
}
