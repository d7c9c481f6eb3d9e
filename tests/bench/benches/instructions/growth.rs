use bulk_reshuffle_bench::routines::{SERIES, Series};

use crate::callgrind::Callgrind;
use crate::subject::Subject;

/// Prints the instructions per operation, from a request's headers to its client's answer, for growing clusters and
/// loads. Returns whether every series stays within its limit.
pub fn is_kept(callgrind: &Callgrind) -> bool {
    println!("\n{:<40} {:>10} {:>22} {:>10} {:>10}", "quantity", "value", "instructions/operation", "ratio", "limit");
    SERIES.iter().map(|series| is_series_kept(callgrind, series)).fold(true, |all, kept| all & kept)
}

fn is_series_kept(callgrind: &Callgrind, Series { name, limit, cases }: &Series) -> bool {
    let (mut least, mut is_kept) = (f64::INFINITY, true);
    for case in cases {
        let subject = Subject::Growth(name, *case);
        let count = callgrind.count(&subject) as f64 / subject.operations() as f64;
        least = least.min(count);
        let times = count / least;
        let verdict = if times > *limit { "too many" } else { "" };
        println!("{name:<40} {:>10} {count:>22.1} {times:>10.2} {limit:>10.2} {verdict}", case.name);
        is_kept &= times <= *limit;
    }
    is_kept
}
