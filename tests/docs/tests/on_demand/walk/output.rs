//! Checks that a command's output matches the page.

use anyhow::{Result, ensure};
use bulk_reshuffle_docs::Command;
use regex_lite::Regex;
use serde_json::Value;

/// Returns an error if the output is an error of the cluster or does not match the page.
pub fn check(command: &Command, printed: &str) -> Result<()> {
    if let Ok(answer) = serde_json::from_str::<Value>(printed) {
        let is_refused = answer.get("error").is_some() || answer["errors"] == true || answer["acknowledged"] == false;
        ensure!(!is_refused, "{}\nprints {printed}", command.text);
    }
    let shows = command.prints.trim_end();
    ensure!(
        shows.is_empty() || pattern(shows)?.is_match(printed.trim_end()),
        "{}\nprints:\n{printed}\nexpected:\n{shows}",
        command.text
    );
    Ok(())
}

/// Returns the pattern of an output: `…` matches any text, and a number matches any number.
fn pattern(shows: &str) -> Result<Regex> {
    let number = Regex::new("[0-9]+")?;
    let parts: Vec<String> =
        shows.split('…').map(|part| number.replace_all(&escaped(part), "[0-9]+").into_owned()).collect();
    Ok(Regex::new(&format!("(?s)^{}$", parts.join(".*")))?)
}

fn escaped(text: &str) -> String {
    text.chars().map(|one| if r"\.+*?()|[]{}^$".contains(one) { format!("\\{one}") } else { one.to_string() }).collect()
}

#[test]
fn only_figures_may_differ() {
    let command = |prints: &str| Command { text: "it".into(), prints: prints.into() };
    assert!(check(&command("…\na: 12 (b)\n"), "first\na: 345 (b)\n").is_ok());
    assert!(check(&command("a: 12\n"), "b: 12\n").is_err());
    assert!(check(&command(""), r#"{"errors":true}"#).is_err());
    assert!(check(&command(""), r#"{"error":{"type":"x"},"status":400}"#).is_err());
}
