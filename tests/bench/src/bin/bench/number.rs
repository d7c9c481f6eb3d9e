//! Numbers in readable form.

use crate::spread::Spread;

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
}
