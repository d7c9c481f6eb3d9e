//! Checks that `make help` lists every target and fits into 100 columns.

use std::process::Command;

use bulk_reshuffle_docs::{Makefile, root};

/// The size of a screen.
const COLUMNS: usize = 100;
const LINES: usize = 40;

fn make_help(arguments: &[&str]) -> String {
    let make = Command::new("make").args(["--no-print-directory", "help"]).args(arguments).current_dir(root()).output();
    let output = make.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn help() -> String {
    make_help(&[])
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
    // The first line of the help names itself.
    let targets = makefile.targets().filter(|target| *target != "help");
    let mut targets: Vec<&str> = targets.collect();
    targets.sort_unstable();
    let mut sorted = told.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, targets, "{help}");
}

#[test]
fn a_marked_target_has_help_for_its_variables() {
    let help = help();
    let marked: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("  ") && line.ends_with(" *"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(marked.contains(&"bench"), "{help}");
    for target in marked {
        let help = make_help(&[&format!("FOR={target}")]);
        let variables = help.lines().filter(|line| line.starts_with("    ")).count();
        assert!(variables > 0 && help.lines().count() == variables + 1, "{target}:\n{help}");
    }
}

#[test]
fn the_help_fits_on_one_screen() {
    let help = help();
    let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > COLUMNS).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
    assert!(help.lines().count() <= LINES, "{help}");
}
