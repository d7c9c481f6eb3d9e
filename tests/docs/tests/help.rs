//! Checks that `make help` lists every target and fits into 100 columns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::process::Command;

use bulk_reshuffle_docs::{Makefile, root};

const COLUMNS: usize = 100;

fn help() -> String {
    let output = Command::new("make").args(["--no-print-directory", "help"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_target_is_in_the_help() {
    let help = help();
    let told: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let makefile = Makefile::read(&root()).unwrap();
    for target in makefile.targets() {
        assert_eq!(told.iter().filter(|name| **name == target).count(), 1, "{target} in:\n{help}");
    }
    assert_eq!(told.len(), makefile.targets().count(), "{help}");
}

#[test]
fn the_examples_have_known_targets_and_variables() {
    let (help, makefile) = (help(), Makefile::read(&root()).unwrap());
    let examples = help.split("\nFor example\n").nth(1).unwrap();
    for example in examples.lines() {
        let mut words = example.split_whitespace();
        assert_eq!(words.next(), Some("make"), "{example}");
        assert!(makefile.has(words.next().unwrap()), "{example}");
        for variable in words.filter_map(|word| word.split_once('=').map(|(name, _)| name)) {
            assert!(help.contains(&format!("\n    {variable}=")), "{variable}");
        }
    }
}

#[test]
fn the_help_fits_into_100_columns() {
    let help = help();
    let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > COLUMNS).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
