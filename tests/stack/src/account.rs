//! The user under which the search nodes run.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// The ids of the unprivileged account and its group.
const NOBODY: u32 = 65_534;

/// The account of the search nodes. Search servers refuse to run as root, so a root user starts them under the
/// unprivileged account, and any other user under their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    is_unprivileged: bool,
}

impl Account {
    /// Returns the account of this process's search nodes.
    pub(crate) fn of_nodes() -> Self {
        Self { is_unprivileged: rustix::process::geteuid().is_root() }
    }

    /// Sets a command to run under this account.
    pub(crate) fn apply(self, command: &mut Command) {
        if self.is_unprivileged {
            // Setting a user id as root also drops root's other groups.
            command.uid(NOBODY).gid(NOBODY);
        }
    }

    /// Reports whether the account can read the folder and traverse all its parent folders.
    pub(crate) fn reaches(self, folder: &Path) -> bool {
        const READ_AND_PASS: u32 = 0o005;
        const PASS: u32 = 0o001;
        if !self.is_unprivileged {
            return true;
        }
        let Ok(folder) = folder.canonicalize() else { return false };
        let allows = |path: &Path, bits| fs::metadata(path).is_ok_and(|found| found.mode() & bits == bits);
        allows(&folder, READ_AND_PASS) && folder.ancestors().skip(1).all(|parent| allows(parent, PASS))
    }

    /// Changes the owner of the folder and everything in it to the account.
    pub(crate) fn own(self, folder: &Path) -> Result<()> {
        if !self.is_unprivileged {
            return Ok(());
        }
        chown(folder, Some(NOBODY), Some(NOBODY))
            .with_context(|| format!("cannot change the owner of {}", folder.display()))?;
        if folder.is_dir() {
            for entry in fs::read_dir(folder)? {
                self.own(&entry?.path())?;
            }
        }
        Ok(())
    }
}
