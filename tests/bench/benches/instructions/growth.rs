use bulk_reshuffle_bench::routines::{SERIES, Series};

use crate::callgrind::Callgrind;
use crate::limits::Limits;
use crate::subject::Subject;

/// Counts and prints the instructions per operation, from a request's headers to its client's answer, for growing
/// clusters and loads. Returns whether every series stays within its ratio.
pub fn count(callgrind: &Callgrind, counted: &mut Limits) -> bool {
    println!("{:<70} {:>10} {:>22} {:>10} {:>10}", "quantity", "value", "instructions/operation", "ratio", "limit");
    let mut is_kept = true;
    for series in SERIES {
        is_kept &= count_series(callgrind, series, counted);
    }
    println!();
    is_kept
}

fn count_series(callgrind: &Callgrind, Series { name, limit, cases }: &Series, counted: &mut Limits) -> bool {
    let (mut least, mut is_kept) = (f64::INFINITY, true);
    for case in cases {
        let subject = Subject::Growth(name, *case);
        let count = callgrind.count(&subject) as f64 / subject.operations() as f64;
        counted.push(name, case.name, count);
        least = least.min(count);
        let times = count / least;
        let verdict = if times > *limit { "too many" } else { "" };
        println!("{name:<70} {:>10} {count:>22.1} {times:>10.2} {limit:>10.2} {verdict}", case.name);
        is_kept &= times <= *limit;
    }
    is_kept
}
