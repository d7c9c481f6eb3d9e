use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;

/// A program of Debian's packages, unpacked by `tests/tools/fetch.py` or installed.
#[derive(Debug)]
pub struct UnpackedProgram {
    root: PathBuf,
    program: PathBuf,
    modules: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl UnpackedProgram {
    /// Finds a program of this tool. `modules` is the folder of its modules, below a folder of libraries.
    pub fn find(tools: &Tools, tool: &str, program: &str, modules: &str) -> Result<Self> {
        let roots = [tools.folder(tool)?, PathBuf::from("/")];
        let root = roots.iter().find(|root| root.join(program).exists()).with_context(|| program.to_owned())?.clone();
        let mut libraries: Vec<_> = roots.iter().flat_map(|root| libraries(root)).collect();
        let modules = libraries.iter().map(|folder| folder.join(modules)).filter(|folder| folder.is_dir()).collect();
        // Some programs have libraries of their own beside their modules.
        let own = Path::new(program).file_name().unwrap_or_default();
        libraries.extend(roots.iter().map(|root| root.join("usr/lib").join(own)));
        Ok(Self { program: root.join(program), root, modules, libraries })
    }

    /// Returns the folder of the files, such as `usr/share`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folders of its modules, separated by colons.
    pub fn modules(&self) -> OsString {
        joined(&self.modules)
    }

    /// Returns a command that runs it with its libraries, without the caller's environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("LD_LIBRARY_PATH", joined(&self.libraries));
        command
    }
}

/// Returns the folders of libraries, such as `usr/lib/x86_64-linux-gnu` or `usr/lib64`.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let below = |name: &str| fs::read_dir(root.join(name)).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = ["usr/lib", "usr", "lib", ""].into_iter().map(|name| root.join(name));
    let folders = below("usr/lib").chain(below("usr")).chain(below("lib")).chain(below("")).chain(own);
    folders.filter(|folder| has_libraries(folder)).collect()
}

fn has_libraries(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_library = |name: &str| name.contains(".so") || ["rsyslog", "syslog-ng"].contains(&name);
    entries.any(|entry| entry.file_name().to_str().is_some_and(is_library))
}

fn joined(folders: &[PathBuf]) -> OsString {
    std::env::join_paths(folders).unwrap_or_default()
}
