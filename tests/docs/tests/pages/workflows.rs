//! Checks that the workflows of `.github` run what `.ci/run` runs, and what it leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use bulk_reshuffle_docs::{Makefile, Need, OUTSIDE_CI, root};
use regex_lite::Regex;
use serde_json::{Value, json};

const EVERY_CHANGE: &str = "every-change.yaml";
const NIGHTLY: &str = "nightly.yaml";

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names of all workflows.
fn workflows() -> Vec<String> {
    let files = fs::read_dir(root().join(".github/workflows")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 2, "{names:?}");
    names
}

fn workflow(name: &str) -> Value {
    serde_saphyr::from_str(&text(&format!(".github/workflows/{name}"))).unwrap()
}

/// Returns the commands of each job.
fn commands(workflow: &Value) -> BTreeMap<String, Vec<String>> {
    let steps = |job: &Value| job["steps"].as_array().cloned().unwrap_or_default();
    let runs = |job: &Value| steps(job).iter().filter_map(|step| step["run"].as_str().map(str::to_owned)).collect();
    workflow["jobs"].as_object().unwrap().iter().map(|(name, job)| (name.clone(), runs(job))).collect()
}

/// Returns the steps of `.ci/steps.py`.
fn steps() -> Vec<String> {
    let text = text(".ci/steps.py");
    let quoted = text.split("\"make ").skip(1).map(|rest| format!("make {}", rest.split('"').next().unwrap()));
    let mut steps: Vec<_> = quoted.collect();
    assert!(steps.len() > 15, "{steps:?}");
    steps.sort();
    steps
}

#[test]
fn every_step_of_ci_is_in_one_job_for_every_change() {
    let mut commands: Vec<_> = commands(&workflow(EVERY_CHANGE)).into_values().flatten().collect();
    commands.sort();
    assert_eq!(commands, steps());
}

#[test]
fn the_workflows_set_the_variables_of_ci() {
    let exports = Regex::new(r"(?m)^export (\w+)=(.*)$").unwrap();
    let script = text(".ci/run");
    let variables: BTreeMap<_, _> =
        exports.captures_iter(&script).map(|it| (it[1].to_owned(), json!(&it[2]))).collect();
    assert!(!variables.is_empty());
    for name in [EVERY_CHANGE, NIGHTLY] {
        assert_eq!(workflow(name)["env"], json!(variables), "{name}");
    }
}

#[test]
fn the_nightly_workflow_makes_what_ci_leaves_out() {
    let commands: BTreeSet<_> = commands(&workflow(NIGHTLY)).into_values().flatten().collect();
    // Its parts are in .ci/run.
    let without_need = ["check"];
    for (target, need) in OUTSIDE_CI {
        let is_made = commands.iter().any(|command| command.split(' ').nth(1) == Some(target));
        let is_needed = matches!(need, Need::Reason(_)) && !without_need.contains(&target);
        assert!(is_made || !is_needed, "{NIGHTLY} does not make {target}");
    }
}

/// A job has no logic: everything that it does can be done on another machine too.
#[test]
fn every_command_of_a_job_is_a_target_with_its_variables() {
    let (makefile, text) = (Makefile::read(&root()).unwrap(), text("Makefile"));
    for name in workflows() {
        for (job, commands) in commands(&workflow(&name)) {
            for command in commands {
                let words = shlex::split(&command).unwrap();
                let [make, target, variables @ ..] = words.as_slice() else { panic!("{name}: {job}: {command}") };
                let is_known = makefile.has(target) || text.contains(&format!("\n{target}:"));
                assert!(make == "make" && is_known, "{name}: {job}: {command}");
                for variable in variables {
                    let (variable, _) = variable.split_once('=').unwrap();
                    assert!(text.contains(&format!("## {variable}=")), "{name}: {job}: {variable}");
                }
            }
        }
    }
}

#[test]
fn every_action_is_pinned_to_one_commit_with_its_version() {
    let uses = Regex::new(r"(?m)^\s*(?:- )?uses: (.*)$").unwrap();
    let pinned = Regex::new(r"^([\w.-]+/[\w.-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$").unwrap();
    let mut files: Vec<_> = workflows().iter().map(|name| format!(".github/workflows/{name}")).collect();
    files.push(".github/actions/prepare/action.yaml".into());
    let mut commits = BTreeMap::new();
    for file in files {
        let text = text(&file);
        for used in uses.captures_iter(&text).map(|it| it[1].to_owned()).filter(|used| !used.starts_with("./")) {
            let pin = pinned.captures(&used).unwrap_or_else(|| panic!("{file}: {used}"));
            let commit = commits.entry(pin[1].to_owned()).or_insert_with(|| pin[2].to_owned());
            assert_eq!(*commit, pin[2], "{file}: {used}");
        }
    }
    assert!(commits.len() >= 3, "{commits:?}");
}

#[test]
fn dependabot_knows_every_folder_with_dependencies() {
    let config: Value = serde_saphyr::from_str(&text(".github/dependabot.yml")).unwrap();
    let folders = |ecosystem: &str| -> BTreeSet<String> {
        let updates = config["updates"].as_array().unwrap();
        let own = updates.iter().filter(|update| update["package-ecosystem"] == ecosystem);
        own.flat_map(|update| update["directories"].as_array().unwrap())
            .map(|it| it.as_str().unwrap().to_owned())
            .collect()
    };
    for (ecosystem, manifest) in [("npm", "package.json"), ("gomod", "go.mod")] {
        let mut found = BTreeSet::new();
        for top in ["examples", "filter", "k6", "tests"] {
            find(&root(), Path::new(top), manifest, &mut found);
        }
        assert!(found.len() > 3, "{found:?}");
        assert_eq!(folders(ecosystem), found, "{ecosystem}");
    }
    assert_eq!(folders("cargo"), BTreeSet::from(["/".to_owned()]));
}

/// Finds the folders that have a file, except installed packages.
fn find(root: &Path, folder: &Path, file: &str, found: &mut BTreeSet<String>) {
    if root.join(folder).join(file).is_file() {
        found.insert(format!("/{}", folder.display()));
    }
    for entry in fs::read_dir(root.join(folder)).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() && entry.file_name() != "node_modules" {
            find(root, &folder.join(entry.file_name()), file, found);
        }
    }
}
