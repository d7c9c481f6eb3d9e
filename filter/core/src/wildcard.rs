/// Returns whether a name matches a pattern. Each asterisk matches any characters, or none.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, end) = rest.rsplit_once('*').map_or((None, rest), |(middle, end)| (Some(middle), end));
    let between = name.strip_prefix(start).and_then(|name| name.strip_suffix(end));
    let found_in_order = |between, middle: &str| middle.split('*').try_fold(between, text_after).is_some();
    between.is_some_and(|between| middle.is_none_or(|middle| found_in_order(between, middle)))
}

/// Returns the text after the first occurrence of a part.
fn text_after<'a>(text: &'a str, part: &str) -> Option<&'a str> {
    // The standard library would first prepare a search for the whole part, which may be much longer.
    (part.len() <= text.len()).then(|| text.split_once(part))?.map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisks_stand_for_any_part_of_a_name() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a"),
            ("it*", "items"),
            ("*s", "items"),
            ("i*t*m*s", "items"),
            ("i*", "i"),
            ("a*b*", "ab"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("item", "items"), ("a*a", "a"), ("*x*", "items"), ("i*m*t*s", "items"), ("stat?s", "status")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
