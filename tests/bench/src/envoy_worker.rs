//! The processor time of a worker of Envoy.

use std::time::Duration;

use anyhow::{Context, Result};
use procfs::process::Process;

/// Returns the processor time that the only worker of an Envoy has used so far, without that of Envoy's main thread.
///
/// # Errors
/// If no Envoy with a worker has this process id.
pub fn processor_time(pid: i32) -> Result<Duration> {
    for task in Process::new(pid)?.tasks()? {
        let task = task?;
        if task.stat()?.comm.starts_with("wrk:worker_0") {
            return Ok(Duration::from_nanos(task.schedstat()?.sum_exec_runtime));
        }
    }
    None.context("this Envoy does not have a worker")
}
