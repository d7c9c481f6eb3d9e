//! The folders that the search nodes read and write.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::distribution::Distribution;
use crate::process::ProcessRecord;
use crate::tools::Tools;

/// In the run folder, the link to the folder elsewhere if there had to be one.
const ELSEWHERE: &str = "nodes";

/// Where the nodes find the Java runtime and the server, and keep their own files.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) java: PathBuf,
    pub(crate) server: PathBuf,
    /// Holds one folder per node.
    pub(crate) nodes: PathBuf,
    /// Removed with the workspace.
    elsewhere: Option<TempDir>,
}

impl Workspace {
    /// Uses the checkout and the run folder where the nodes' account reaches both. In a checkout that only root can
    /// enter, it makes a folder of its own under the system's temporary folder and puts everything there.
    pub(crate) fn prepare(tools: &Tools, distribution: Distribution, run_dir: &Path, account: Account) -> Result<Self> {
        let server = tools.server(distribution)?;
        fs::create_dir_all(run_dir).with_context(|| format!("cannot create {}", run_dir.display()))?;
        remove_elsewhere(run_dir)?;
        let in_place = [tools.java.as_path(), &server, run_dir].into_iter().all(|folder| account.reaches(folder));
        if in_place {
            return Ok(Self {
                java: tools.java.canonicalize()?,
                server: server.canonicalize()?,
                nodes: run_dir.canonicalize()?,
                elsewhere: None,
            });
        }
        let elsewhere = temporary_folder(account)?;
        let place = |name: &str| elsewhere.path().join(name);
        symlink(elsewhere.path(), run_dir.join(ELSEWHERE))?;
        link_tree(&tools.java, &place("java"))?;
        link_tree(&server, &place("server"))?;
        fs::create_dir(place("nodes"))?;
        Ok(Self { java: place("java"), server: place("server"), nodes: place("nodes"), elsewhere: Some(elsewhere) })
    }

    /// Lets the folders outlive this value.
    pub(crate) fn keep(self) {
        self.elsewhere.map(TempDir::keep);
    }
}

/// A folder that the nodes of any cluster may read and write: for snapshots. Removed with the value.
#[derive(Debug)]
pub struct SharedFolder(TempDir);

impl SharedFolder {
    /// An empty one, where the nodes' account reaches it.
    pub fn new() -> Result<Self> {
        let account = Account::of_nodes();
        let folder = temporary_folder(account)?;
        account.own(folder.path())?;
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Ends everything that was started with [`Lifetime::Independent`](crate::Lifetime::Independent) in this run folder
/// and still runs; returns what that was.
pub async fn stop_left_running(run_dir: &Path) -> Result<Vec<ProcessRecord>> {
    let mut running = ProcessRecord::read_all(run_dir)?;
    running.retain(ProcessRecord::is_running);
    // All at once: each takes its time.
    running.iter().try_for_each(ProcessRecord::terminate)?;
    for process in &running {
        process.stop().await?;
    }
    remove_elsewhere(run_dir)?;
    Ok(running)
}

/// Removes the folder elsewhere that a run, perhaps a killed one, has left.
fn remove_elsewhere(run_dir: &Path) -> Result<()> {
    let link = run_dir.join(ELSEWHERE);
    let Ok(folder) = fs::read_link(&link) else { return Ok(()) };
    fs::remove_file(&link)?;
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn temporary_folder(account: Account) -> Result<TempDir> {
    for parent in [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()] {
        // Anybody may write into /tmp, which makes it reachable; a private TMPDIR is not.
        if account.reaches(&parent) {
            let folder = tempfile::Builder::new().prefix("bulk-reshuffle-").tempdir_in(parent)?;
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
            return Ok(folder);
        }
    }
    bail!("found no temporary folder that the search nodes' user can enter; set TMPDIR to one")
}

/// Copies a folder by hard links, and by real copies where the two are on different file systems.
fn link_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link_tree(&source, &target)?;
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}
