//! A child process with its log file.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::wait;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Whether a child may outlive this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// The kernel kills the child when this process ends in any way.
    #[default]
    WithParent,
    /// The child may outlive this process: see [`Process::leave_running`].
    Independent,
}

/// A running child. It has its own session, so that Ctrl-C in the terminal reaches only this process, which then stops
/// its children in order. Signals go to the child's whole process group, because a child may be a launcher. Dropping
/// the value kills the child.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    /// The child; `None` once it is left running. The kernel does not reuse its pid until it is waited for.
    child: Mutex<Option<Child>>,
}

impl Process {
    /// Starts the command and writes its output to the file `log`.
    pub fn start(name: &str, mut command: Command, log: &Path, lifetime: Lifetime) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        in_own_session(&mut command, lifetime);
        let program = command.get_program().display().to_string();
        let child = spawn(command).with_context(|| format!("cannot start {name} ({program})"))?;
        let pid = Pid::from_child(&child);
        let process = Self { name: name.into(), log: log.into(), pid, child: Mutex::new(Some(child)) };
        if lifetime == Lifetime::Independent {
            process.write_record()?;
        }
        Ok(process)
    }

    /// Returns the name that was given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns everything that the process has written so far.
    pub fn log(&self) -> String {
        self.log_since(0)
    }

    /// Returns what the process has written after this number of bytes.
    pub(crate) fn log_since(&self, start: usize) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    }

    /// Returns how many bytes the process has written so far.
    pub(crate) fn log_length(&self) -> usize {
        fs::read(&self.log).map_or(0, |bytes| bytes.len())
    }

    /// Returns the exit status if the process has ended.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        match self.child().as_mut() {
            Some(child) => Ok(child.try_wait()?),
            None => bail!("{} was left running and is no longer supervised", self.name),
        }
    }

    /// Returns an error with an extract of the log if the process has ended.
    pub fn ensure_running(&self) -> Result<()> {
        match self.exit_status()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("{} ended unexpectedly ({status})\n{}", self.name, self.log_extract())),
        }
    }

    /// Returns an extract of the log for error messages: its path, the first lines with an error, and the last lines.
    pub fn log_extract(&self) -> String {
        const LAST: usize = 20;
        const ERRORS: usize = 5;
        const WIDTH: usize = 300;
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let (earlier, last) = lines.split_at(lines.len().saturating_sub(LAST));
        let is_error =
            |line: &&&str| ["[critical]", "[error]", "[ERROR]", "[FATAL]"].iter().any(|tag| line.contains(tag));
        let errors: Vec<&str> = earlier.iter().filter(is_error).take(ERRORS).copied().collect();
        let shortened = |line: &&str| line.chars().take(WIDTH).collect::<String>();
        let extract: Vec<String> = errors.iter().chain(last).map(shortened).collect();
        format!("from {}:\n{}", self.log.display(), extract.join("\n"))
    }

    /// Sends a signal; returns an error if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The lock is held while the signal is sent: the pid is not reused until the child is waited for.
        let mut child = self.child();
        match child.as_mut().map(Child::try_wait).transpose()? {
            Some(None) => Ok(rustix::process::kill_process_group(self.pid, signal)?),
            _ => bail!("{} (pid {}) no longer runs", self.name, self.pid()),
        }
    }

    /// Kills the process and its children (SIGKILL), and returns when the process has ended.
    pub fn kill(&self) -> Result<()> {
        if let Some(child) = self.child().as_mut() {
            if child.try_wait()?.is_none() {
                // The group's id is not reused until the child is waited for.
                rustix::process::kill_process_group(self.pid, Signal::KILL)?;
            }
            child.wait()?;
        }
        Ok(())
    }

    /// Asks the process to end (SIGTERM), without waiting.
    pub fn terminate(&self) -> Result<()> {
        if self.exit_status()?.is_none() {
            self.signal(Signal::TERM)?;
            // A paused process handles the signal only after it resumes.
            self.signal(Signal::CONT).ok();
        }
        Ok(())
    }

    /// Stops the process: SIGTERM, then SIGKILL if it does not end in time.
    pub async fn stop(&self) -> Result<()> {
        self.terminate()?;
        let ended = wait::until(GRACE, "the process ends", async || Ok(self.exit_status()?.map(|_| ()))).await;
        if ended.is_err() { self.kill() } else { Ok(()) }
    }

    /// Releases the process, which continues to run until it is stopped by its [`ProcessRecord`].
    pub fn leave_running(&self) {
        self.child().take();
    }

    /// Writes the process's record, at the start, so that the process can be found even if its parent dies early.
    fn write_record(&self) -> Result<()> {
        let Status { start_time, .. } =
            status_of(self.pid).with_context(|| format!("{} ended immediately after its start", self.name))?;
        let record = ProcessRecord { name: self.name.clone(), pid: self.pid(), start_time };
        let path = self.log.with_extension(RECORD);
        fs::write(&path, serde_json::to_vec(&record)?).with_context(|| format!("cannot write {}", path.display()))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error cannot be returned here, and most likely means that the process has ended.
        self.kill().ok();
    }
}

/// A record that distinguishes a process that may outlive its parent from a later process with the same pid. Its file
/// is beside the process's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The name that was given at the start.
    pub name: String,
    /// The process id.
    pub pid: i32,
    /// The start time, in the kernel's ticks since boot.
    start_time: u64,
}

/// The extension of the records' files.
const RECORD: &str = "pid.json";

impl ProcessRecord {
    /// Reads all records in a run folder, also of processes that have ended; none if the folder does not exist.
    pub fn read_all(run_dir: &Path) -> Result<Vec<Self>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(run_dir).into_iter().flatten() {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(RECORD) {
                let record = serde_json::from_slice(&fs::read(&path)?);
                records.push(
                    record.with_context(|| format!("{} is not a valid process record: delete it", path.display()))?,
                );
            }
        }
        Ok(records)
    }

    /// Reports whether this exact process still runs.
    pub fn is_running(&self) -> bool {
        Pid::from_raw(self.pid)
            .and_then(status_of)
            .is_some_and(|status| status.start_time == self.start_time && !status.is_zombie)
    }

    /// Stops the process: SIGTERM, then SIGKILL if it does not end in time. Does nothing if it no longer runs.
    pub async fn stop(&self) -> Result<()> {
        self.terminate()?;
        let ended = wait::until(GRACE, "the process ends", async || Ok((!self.is_running()).then_some(()))).await;
        if ended.is_err() { self.signal(Signal::KILL) } else { Ok(()) }
    }

    /// Asks the process to end (SIGTERM), without waiting.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)?;
        // A paused process handles the signal only after it resumes.
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid).with_context(|| format!("{} is not a pid", self.pid))?;
        // The descriptor identifies a single process. Because the start time is checked after it is opened, the pid
        // cannot be reused in between.
        let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
        if self.is_running() {
            rustix::process::pidfd_send_signal(&process, signal)
                .with_context(|| format!("cannot signal {} (pid {})", self.name, self.pid))?;
        }
        Ok(())
    }
}

struct Status {
    start_time: u64,
    is_zombie: bool,
}

/// Reads `/proc/<pid>/stat`. The second field, the program's name in parentheses, may have any characters.
fn status_of(pid: Pid) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let is_zombie = fields.next()? == "Z";
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Status { start_time, is_zombie })
}

#[allow(unsafe_code, reason = "the standard library has no safe way to set these two between fork and exec")]
fn in_own_session(command: &mut Command, lifetime: Lifetime) {
    let prepare = move || {
        rustix::process::setsid()?;
        if lifetime == Lifetime::WithParent {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; these are two bare system calls.
    unsafe { command.pre_exec(prepare) };
}

/// Lets a command run on these processors only.
#[allow(unsafe_code, reason = "the standard library has no safe way to set them between fork and exec")]
pub(crate) fn limit_to(command: &mut Command, processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; this is a bare system call.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
}

/// Spawns from a thread that lives as long as this process. The kernel's parent-death signal refers to the *thread*
/// that spawned the child, and a test's thread ends while other tests still use its processes.
fn spawn(command: Command) -> Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: LazyLock<Sender<Job>> = LazyLock::new(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                reply.send(command.spawn()).ok();
            }
        });
        jobs
    });
    let (reply, answer) = channel();
    SPAWNER.send((command, reply))?;
    Ok(answer.recv()??)
}
