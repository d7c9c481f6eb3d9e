//! Numbers and tables for people.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

/// The median and the range of some values of one quantity. The middle of an even number of values is the mean of the
/// two middle ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some values, or `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { min: *values.first()?, median: f64::midpoint(lower, upper), max: *values.last()? })
    }

    /// Returns whether no value results from a division by 0.
    pub fn is_finite(&self) -> bool {
        self.min.is_finite() && self.max.is_finite()
    }
}

/// Formats a spread as `4.1 (3.9–4.4)`.
pub fn spread(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { min, median, max }) if min < max => {
            format!("{} ({}–{})", number(median), number(min), number(max))
        }
        Some(Spread { median, .. }) => number(median),
        None => String::new(),
    }
}

/// Formats a number with about three digits, or as a whole number.
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => thousands(value),
        medium if medium >= 9.995 => format!("{value:.1}"),
        small if small >= 0.095 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

/// Formats `1234567.8` as `1,234,568`.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Creates a Markdown table whose first columns are words and whose other columns are numbers.
pub fn table<T: ToString>(header: &[T], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header.iter().map(ToString::to_string));
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0123, "0.0123"),
            (0.1234, "0.12"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1_234_567.8, "1,234,568"),
            (-1_234.0, "-1,234"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_spread_shows_its_range_if_it_has_one() {
        assert_eq!(spread(Some(Spread { min: 1.0, median: 2.0, max: 300.0 })), "2.00 (1.00–300)");
        assert_eq!(spread(Some(Spread { min: 2.0, median: 2.0, max: 2.0 })), "2.00");
        assert_eq!(spread(None), "");
    }

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_the_two_middle_ones() {
        let cases = [
            (vec![5.0, 1.0, 2.0], Some((1.0, 2.0, 5.0))),
            (vec![5.0, 1.0, 2.0, 4.0], Some((1.0, 3.0, 5.0))),
            (vec![7.0], Some((7.0, 7.0, 7.0))),
            (Vec::new(), None),
        ];
        for (values, expected) in cases {
            let found = Spread::of(values.iter().copied()).map(|Spread { min, median, max }| (min, median, max));
            assert_eq!(found, expected, "{values:?}");
        }
    }
}
