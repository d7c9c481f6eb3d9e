//! Checks that every command in every page is run by a test or a target.

use std::fs;

use bulk_reshuffle_docs::{Block, ELSEWHERE, Make, Makefile, Need, OUTSIDE_CI, Page, Test, root};

/// Languages of blocks without commands.
const NO_COMMANDS: [&str; 5] = ["js", "json", "text", "toml", "yaml"];

/// Programs that `make test-docs` does not have.
const ABSENT: [&str; 6] = ["docker", "helm", "istioctl", "k6", "kubectl", "npm"];

/// Folders of the checkout whose files appear in commands.
const FOLDERS: [&str; 6] = ["envoy/", "examples/", "filter/", "istio/", "k6/", "tests/"];

fn blocks() -> Vec<Block> {
    Page::all(&root()).unwrap().into_iter().flat_map(|page| page.blocks).collect()
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Reports whether a file of the checkout has a function.
fn has_test(file: &str, test: &str) -> bool {
    fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains(&format!("fn {test}(")))
}

#[test]
fn every_block_has_a_known_language() {
    let blocks = blocks();
    let unknown = |block: &&Block| !["sh", "console"].contains(&block.language.as_str());
    let unknown = blocks.iter().filter(unknown).filter(|block| !NO_COMMANDS.contains(&block.language.as_str()));
    assert_none(
        &unknown.map(|block| format!("{}: unknown language `{}`", block.place(), block.language)).collect::<Vec<_>>(),
    );
    assert!(blocks.iter().map(|block| block.commands().len()).sum::<usize>() > 40, "too few commands were found");
}

#[test]
fn a_shell_can_parse_every_command() {
    let blocks = blocks();
    let commands = blocks.iter().flat_map(|block| block.commands().into_iter().map(move |command| (block, command)));
    let unread = commands.filter(|(_, command)| command.words().is_empty() && !command.text.starts_with('#'));
    assert_none(&unread.map(|(block, command)| format!("{}: {}", block.place(), command.text)).collect::<Vec<_>>());
}

#[test]
fn every_make_command_has_known_targets_and_variables() {
    let makefile = Makefile::read(&root()).unwrap();
    let help = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut problems = Vec::new();
    for block in blocks() {
        for Make { targets, variables, .. } in block.commands().iter().filter_map(|command| command.make()) {
            for target in targets.iter().filter(|target| !makefile.has(target)) {
                problems.push(format!("{}: `make {target}` does not exist", block.place()));
            }
            let script = targets == ["k6"];
            let name = |variable: &String| variable.split('=').next().unwrap_or_default().to_owned();
            for variable in variables.iter().map(name).filter(|name| !script && !help.contains(&format!("## {name}=")))
            {
                problems.push(format!("{}: `make help` does not list {variable}", block.place()));
            }
        }
    }
    // The inline code also has targets.
    for page in Page::all(&root()).unwrap() {
        for code in page.codes.iter().filter_map(|code| code.strip_prefix("make ")) {
            let target = code.split(' ').next().unwrap_or_default();
            if !makefile.has(target) {
                problems.push(format!("{}: `make {target}` does not exist", page.path));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_target_is_in_ci_or_has_a_reason_not_to_be() {
    let makefile = Makefile::read(&root()).unwrap();
    let mut problems = Vec::new();
    for target in makefile.targets() {
        let outside = OUTSIDE_CI.iter().any(|(name, _)| *name == target);
        if makefile.is_in_ci(target) == outside {
            problems.push(format!("`make {target}` must be either in .ci/run or in OUTSIDE_CI"));
        }
    }
    for (target, need) in OUTSIDE_CI {
        if !makefile.has(target) {
            problems.push(format!("`make {target}` does not exist"));
        }
        if let Need::RunBy(file, test) = need
            && !has_test(file, test)
        {
            problems.push(format!("{target}: {file} has no {test}"));
        }
    }
    assert_none(&problems);
}

#[test]
fn every_block_that_is_not_run_unchanged_is_covered_elsewhere() {
    let (blocks, makefile) = (blocks(), Makefile::read(&root()).unwrap());
    let mut problems = Vec::new();
    for entry in &ELSEWHERE {
        let found = blocks.iter().filter(|block| entry.is_of(block)).count();
        if found != 1 {
            problems.push(format!("{} has {found} blocks that begin with `{}`", entry.page, entry.begins));
        }
        let Test(file, test, target) = entry.test;
        if !has_test(file, test) {
            problems.push(format!("{file} has no test {test}"));
        }
        if !makefile.has(target) {
            problems.push(format!("`make {target}` does not exist"));
        }
    }
    assert_none(&problems);
}

#[test]
fn every_block_that_needs_an_absent_program_is_covered_elsewhere() {
    let is_absent = |block: &Block| {
        let words = block.commands().into_iter().filter_map(|command| command.words().into_iter().next());
        words.into_iter().any(|program| ABSENT.contains(&program.as_str()))
    };
    let blocks = blocks();
    let missing = blocks.iter().filter(|block| is_absent(block) && !ELSEWHERE.iter().any(|entry| entry.is_of(block)));
    assert_none(&missing.map(|block| format!("{}: {}", block.place(), block.text)).collect::<Vec<_>>());
}

/// Also checks commands that cannot run here.
#[test]
fn files_in_commands_exist() {
    let mut problems = Vec::new();
    for block in blocks() {
        let words = block.commands().iter().flat_map(|command| command.words()).collect::<Vec<_>>();
        for word in words.iter().filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder))) {
            if !root().join(word).exists() {
                problems.push(format!("{}: {word} does not exist", block.place()));
            }
        }
    }
    assert_none(&problems);
}
