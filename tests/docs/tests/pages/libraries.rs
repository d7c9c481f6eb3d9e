//! Cargo compiles each library once for programs and tests.

use std::collections::BTreeSet;
use std::process::Command;

use bulk_reshuffle_docs::root;

/// Returns each library and its features, as Cargo chooses them for these kinds of dependencies of all members.
fn libraries(kinds: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--workspace", "--prefix=none", "--no-dedupe", "--format={p} {f}"]);
    let output = cargo.arg("--edges").arg(kinds).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// `make demo` and then `make test` compile each library once. If this fails, let a member that only tests use
/// depend on the library with the missing features, as `tests/docs` does.
#[test]
fn programs_and_tests_share_one_build_of_each_library() {
    let (programs, tests) = (libraries("normal,build"), libraries("normal,build,dev"));
    assert!(programs.len() > 100, "{programs:?}");
    let other_features: Vec<_> = programs.difference(&tests).collect();
    assert!(other_features.is_empty(), "tests use these libraries with more features: {other_features:#?}");
}
