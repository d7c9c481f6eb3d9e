#![no_main]
//! `make fuzz`

bulk_reshuffle_fuzz::target!(bulk_reshuffle_fuzz::document);
