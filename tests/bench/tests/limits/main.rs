//! Limits of core's work for a request and for a large state, as far as they can be checked without a clock:
//! allocations, memory, queries and steps.

mod allocations;
mod arrivals;
mod growth;
mod large_state;
mod memory;
mod routines;
