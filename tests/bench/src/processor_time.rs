//! Processor time, as the kernel counts it.

use std::time::Duration;

use anyhow::Result;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use procfs::{CpuTime, CurrentSI, KernelStats};

/// Returns the time that a process has used so far, with all its threads, in user and kernel mode. It has nanosecond
/// precision. `/proc/<pid>/stat` has steps of 10 ms, too coarse for what Envoy needs in a few seconds.
pub fn of_process(pid: i32) -> Result<Duration> {
    Ok(clock_gettime(clock_getcpuclockid(Pid::from_raw(pid))?)?.into())
}

/// Returns the time that this process has used so far.
pub fn of_this_process() -> Result<Duration> {
    of_process(Pid::this().as_raw())
}

/// Returns the time that all of the machine's processors have been busy so far, for any process, or were unavailable
/// because the host was busy with other machines.
pub fn of_machine() -> Result<Duration> {
    Ok(of_processors(&KernelStats::current()?.total))
}

fn of_processors(time: &CpuTime) -> Duration {
    let more = [time.irq, time.softirq, time.steal].into_iter().flatten().sum::<u64>();
    from_ticks(time.user + time.nice + time.system + more)
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nix::time::ClockId;
    use procfs::FromReadSI;

    use super::*;

    #[test]
    fn a_process_is_charged_for_its_threads() {
        let before = of_this_process().unwrap();
        let busy = || {
            let used = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
            while used() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            used()
        };
        let used = std::thread::spawn(busy).join().unwrap();
        assert!(of_this_process().unwrap() - before >= used);
    }

    #[test]
    fn a_process_is_not_charged_for_sleeping() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let in_a_while = || {
            let before = of_process(pid).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            of_process(pid).unwrap() - before
        };
        // The process must start before it sleeps.
        while !in_a_while().is_zero() {
            assert!(Instant::now() < deadline, "the process does not sleep");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_kernel_reports_the_same_in_ticks() {
        let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let mut child = child.unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while of_process(pid).unwrap() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        let before = of_process(pid).unwrap();
        let stat = procfs::process::Process::new(pid).unwrap().stat().unwrap();
        let after = of_process(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let step = from_ticks(1);
        let reported = from_ticks(stat.utime + stat.stime);
        assert!(before <= reported + step + step && reported <= after + step, "{before:?}, {reported:?}, {after:?}");
    }

    #[test]
    fn a_machine_is_busy_when_it_neither_idles_nor_waits_for_a_disk() {
        let text = "cpu  100 10 50 7000 8000 3 4 5 6 7\n\
                    cpu0 100 10 50 7000 8000 3 4 5 6 7\n\
                    ctxt 1\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n";
        let stats = KernelStats::from_read(text.as_bytes(), procfs::current_system_info()).unwrap();
        let ticks = procfs::ticks_per_second() as f64;
        assert_eq!(of_processors(&stats.total), Duration::from_secs_f64(172.0 / ticks));
    }
}
