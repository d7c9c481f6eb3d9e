//! The commands of an example's README.

use std::path::{Path, PathBuf};

use bulk_reshuffle_stack::Tools;

/// Returns a folder of examples.
pub fn folder(name: &str) -> PathBuf {
    Tools::find().unwrap().root.join("examples").join(name)
}

/// Returns every command in the README of these examples.
pub fn commands(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    let shell = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    shell.flat_map(str::lines).map(str::to_owned).collect()
}
