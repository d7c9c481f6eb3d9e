use std::fmt::{self, Display};

use bulk_reshuffle_stack::Distribution;

/// A table with kinds in rows and versions in columns.
#[derive(Debug, Default)]
pub struct Report {
    versions: Vec<Distribution>,
    rows: Vec<(String, Vec<String>)>,
}

impl Report {
    pub fn add(&mut self, version: Distribution, cells: Vec<(String, String)>) {
        self.versions.push(version);
        for (place, (title, cell)) in cells.into_iter().enumerate() {
            match self.rows.get_mut(place) {
                Some((_, row)) => row.push(cell),
                None => self.rows.push((title, vec![cell])),
            }
        }
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.versions.iter().map(|version| version.title()).collect();
        writeln!(to, "| | {} |", names.join(" | "))?;
        writeln!(to, "|---|{}", "---|".repeat(names.len()))?;
        self.rows.iter().try_for_each(|(title, cells)| writeln!(to, "| {title} | {} |", cells.join(" | ")))
    }
}
