//! A folder for files in memory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::statvfs;

/// The file system of Linux whose files are in memory.
const MEMORY: &str = "/dev/shm";

/// The room that it must have, in bytes. The nodes of a test fill a tenth of it. In a container it may have 64 MiB in all.
const LEAST_ROOM: u64 = 2 << 30;

/// A script that removes the folder when its standard input ends, which is no later than the process that has the other
/// end of it. It ignores the signals by which a terminal or CI ends all processes of a command.
const REMOVE: &str = r#"trap '' HUP INT TERM; read -r line; until rm -rf "$0"; do sleep 0.1; done"#;

/// A folder in memory. It is removed with the value, and also if this process is killed.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    path: PathBuf,
    remover: Child,
}

impl MemoryFolder {
    /// Creates an empty folder. Returns `None` if the machine has too little memory for files.
    pub(crate) fn new() -> Option<Self> {
        let room = statvfs(MEMORY).ok()?;
        if room.f_bavail.checked_mul(room.f_frsize)? < LEAST_ROOM {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("bulk-reshuffle-").tempdir_in(MEMORY).ok()?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).ok()?;
        let mut command = Command::new("sh");
        command.args(["-c", REMOVE]).arg(folder.path()).stdin(Stdio::piped());
        let remover = command.spawn().ok()?;
        Some(Self { path: folder.keep(), remover })
    }

    /// Returns the folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        self.remover.wait().ok();
    }
}
