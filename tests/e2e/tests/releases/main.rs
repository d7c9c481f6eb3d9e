//! What the filter knows about each release, compared with that release itself: its routing (`matrix`), its answers to
//! single documents (`singles`) and its parser of `_bulk` bodies (`parsers`). `VERSIONS="opensearch-2 …"` chooses some of
//! the releases.

mod matrix;
mod parsers;
mod singles;
