//! The instructions that each part of core takes per operation: `make bench-instructions`. Unlike time, counts stay the
//! same on a busy machine, so a limit can be enforced.

mod callgrind;
mod growth;
mod limits;
mod subject;

use std::process::ExitCode;

use bulk_reshuffle_bench::routines::{Load, ROUTINES};

use callgrind::Callgrind;
use limits::Limits;
use subject::Subject;

/// The size of an operation, in bytes. The work that depends on it, finding newlines and copying, takes few
/// instructions.
const BYTES: usize = 290;

/// The environment variable that makes this program rewrite the limits.
const RENEW: &str = "RENEW";

fn main() -> ExitCode {
    if let Some(subject) = callgrind::asked_for() {
        callgrind::run(subject.routine().expect("a routine of this name").as_mut());
        return ExitCode::SUCCESS;
    }
    let callgrind = Callgrind::find();
    let mut counted = Limits::default();
    for (routine, _) in ROUTINES {
        for (requests, documents) in Load::REQUESTS {
            let load = Load { requests, documents, bytes: BYTES };
            let count = callgrind.count(&Subject::Routine(routine, load));
            counted.push(routine, &load.to_string(), count as f64 / load.operations() as f64);
        }
    }
    let is_ratio_kept = growth::count(&callgrind, &mut counted);
    if std::env::var_os(RENEW).is_some_and(|value| !value.is_empty()) {
        counted.write();
    }
    let is_kept = counted.compare(&Limits::read()) && is_ratio_kept;
    println!("profiles, for callgrind_annotate: {}", callgrind.folder().display());
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
