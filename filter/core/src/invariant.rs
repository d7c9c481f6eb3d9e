//! Arithmetic, ranges and lookups that an invariant keeps within bounds.
//!
//! A wrong count, range or key is a bug of this crate: a debug build panics with the reason, so that the tests, the simulator
//! and the fuzz targets find it. A release build must not trap, so there a count stops at its bound, a range is empty, and a lookup
//! finds nothing.
//! Where `saturating_sub` or `unwrap_or_default` stand alone, the bound is part of the rule: what is left of a limit, or
//! the time until a deadline that may be over.

use std::slice::SliceIndex;

/// A count, an offset or a number.
pub trait Count: Copy + Sized {
    /// Adds to a count that cannot overflow, for this reason.
    #[must_use]
    fn plus(self, more: Self, why: &str) -> Self;

    /// Subtracts from a count that is at least as large, for this reason.
    #[must_use]
    fn minus(self, less: Self, why: &str) -> Self;
}

macro_rules! count {
    ($($number:ty),*) => {$(
        impl Count for $number {
            #[inline]
            #[track_caller]
            fn plus(self, more: Self, why: &str) -> Self {
                debug_assert!(self.checked_add(more).is_some(), "{self} + {more} is out of range: {why}");
                self.saturating_add(more)
            }

            #[inline]
            #[track_caller]
            fn minus(self, less: Self, why: &str) -> Self {
                debug_assert!(self.checked_sub(less).is_some(), "{self} - {less} is out of range: {why}");
                self.saturating_sub(less)
            }
        }
    )*};
}

count!(u16, u32, u64, usize, i64);

/// Returns a part of a slice that has it, for this reason.
#[inline]
#[track_caller]
pub fn part<'a, T>(
    of: &'a [T],
    range: impl SliceIndex<[T], Output = [T]> + Clone + std::fmt::Debug,
    why: &str,
) -> &'a [T] {
    debug_assert!(of.get(range.clone()).is_some(), "{range:?} of {}: {why}", of.len());
    of.get(range).unwrap_or_default()
}

/// Returns what was looked up and must be there, for this reason. In a release build, the caller does without it.
#[inline]
#[track_caller]
pub fn found<T>(looked_up: Option<T>, why: &str) -> Option<T> {
    debug_assert!(looked_up.is_some(), "nothing was found: {why}");
    looked_up
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ranges_within_bounds_are_computed() {
        assert_eq!((2_u64.plus(3, "small"), 5_usize.minus(5, "equal")), (5, 0));
        assert_eq!(part(&[1, 2, 3], 1..3, "inside"), [2, 3]);
    }

    #[test]
    #[should_panic(expected = "1 - 2 is out of range: a batch ends once")]
    fn a_count_below_zero_panics_in_debug_builds() {
        let _ = 1_u32.minus(2, "a batch ends once");
    }

    #[test]
    #[should_panic(expected = "2..5 of 3: an item ends within its body")]
    fn a_range_outside_panics_in_debug_builds() {
        part(&[1, 2, 3], 2..5, "an item ends within its body");
    }

    #[test]
    #[should_panic(expected = "nothing was found: a request stays")]
    fn a_failed_lookup_panics_in_debug_builds() {
        let _ = found::<u32>(None, "a request stays");
    }
}
