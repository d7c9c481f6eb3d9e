//! The folders that the search nodes read and write.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::cluster::ClusterOptions;
use crate::memory_folder::MemoryFolder;
use crate::process::ProcessRecord;
use crate::tools::Tools;

/// The link in the run folder to the temporary folder, if one is needed.
const ELSEWHERE: &str = "nodes";

/// The folders of the Java runtime, of the server and of the nodes' own files.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) java: PathBuf,
    pub(crate) server: PathBuf,
    /// The parent of the nodes' folders.
    pub(crate) nodes: PathBuf,
    /// The temporary folder, which is removed with the workspace.
    elsewhere: Option<TempDir>,
    /// The parent of the folders for the nodes' data, if these are in memory. Tests make and remove thousands of small
    /// files, for which a disk's file system computes: the differential test took 244 and 259 s of processor time with
    /// data on the disk, and 170 and 174 s with data in memory.
    memory: Option<MemoryFolder>,
}

impl Workspace {
    /// Uses the checkout and the run folder if the nodes' account can access both. Otherwise, as in a checkout that
    /// only root can enter, creates a folder under the system's temporary folder and links or copies everything there.
    pub(crate) fn prepare(tools: &Tools, server: &Path, options: &ClusterOptions) -> Result<Self> {
        let (run_dir, account) = (&options.run_dir, Account::of_nodes());
        fs::create_dir_all(run_dir).with_context(|| format!("cannot create {}", run_dir.display()))?;
        remove_elsewhere(run_dir)?;
        let memory = (!options.data_on_disk).then(MemoryFolder::new).flatten();
        let in_place = [tools.java.as_path(), server, run_dir].into_iter().all(|folder| account.reaches(folder));
        if in_place {
            return Ok(Self {
                java: tools.java.canonicalize()?,
                server: server.canonicalize()?,
                nodes: run_dir.canonicalize()?,
                elsewhere: None,
                memory,
            });
        }
        let elsewhere = temporary_folder(account)?;
        let place = |name: &str| elsewhere.path().join(name);
        symlink(elsewhere.path(), run_dir.join(ELSEWHERE))?;
        link_tree(&tools.java, &place("java"))?;
        link_tree(server, &place("server"))?;
        fs::create_dir(place("nodes"))?;
        let [java, server, nodes] = ["java", "server", "nodes"].map(place);
        Ok(Self { java, server, nodes, elsewhere: Some(elsewhere), memory })
    }

    /// Returns the folder for a node's data.
    pub(crate) fn data_of(&self, name: &str) -> PathBuf {
        match &self.memory {
            Some(memory) => memory.path().join(name),
            None => self.nodes.join(name).join("data"),
        }
    }

    /// Keeps the folders after this value is dropped.
    pub(crate) fn keep(self) {
        assert!(self.memory.is_none(), "data in memory ends with this process: set data_on_disk");
        self.elsewhere.map(TempDir::keep);
    }
}

/// A folder for snapshots that the nodes of any cluster can read and write. It is removed with the value.
#[derive(Debug)]
pub struct SharedFolder(TempDir);

impl SharedFolder {
    /// Creates an empty folder that the nodes' account can access.
    pub fn new() -> Result<Self> {
        let account = Account::of_nodes();
        let folder = temporary_folder(account)?;
        account.own(folder.path())?;
        Ok(Self(folder))
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Returns a folder for the logs and data of this process. Removes those of processes that have ended.
pub fn folder_of_this_process(parent: &Path) -> PathBuf {
    for run in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(run.file_name()).exists() {
            // Another process may remove it at the same time.
            fs::remove_dir_all(run.path()).ok();
        }
    }
    parent.join(std::process::id().to_string())
}

/// Stops all processes of this run folder that were started with
/// [`Lifetime::Independent`](crate::Lifetime::Independent) and still run. Returns their records.
pub async fn stop_left_running(run_dir: &Path) -> Result<Vec<ProcessRecord>> {
    let mut running = ProcessRecord::read_all(run_dir)?;
    running.retain(ProcessRecord::is_running);
    // Terminate all processes first, so that they end in parallel.
    running.iter().try_for_each(ProcessRecord::terminate)?;
    for process in &running {
        process.stop().await?;
    }
    remove_elsewhere(run_dir)?;
    Ok(running)
}

/// Removes the temporary folder of an earlier run, which may have been killed.
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
        // Every user can access /tmp, but not a private TMPDIR.
        if account.reaches(&parent) {
            let folder = tempfile::Builder::new().prefix("bulk-reshuffle-").tempdir_in(parent)?;
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
            return Ok(folder);
        }
    }
    bail!("the search nodes' user cannot enter any temporary folder: set TMPDIR to a folder that it can enter")
}

/// Copies a folder by hard links, or by real copies if the two folders are on different file systems.
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
