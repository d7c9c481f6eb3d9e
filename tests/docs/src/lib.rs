//! Holds the project's pages to what they say.
//!
//! [`Page`] reads a Markdown file: its links, its anchors, and its [`Block`]s of commands. What a command is run by is
//! said in one place: a target of `make` by the [`Makefile`], what needs more than this machine by [`ELSEWHERE`], and
//! everything else by `make test-docs`, which runs it as it stands there.

mod block;
mod elsewhere;
mod makefile;
mod page;

pub use block::{Block, Command, Make};
pub use elsewhere::{ELSEWHERE, Elsewhere};
pub use makefile::{Makefile, Need, OUTSIDE_CI};
pub use page::Page;

use std::path::{Path, PathBuf};

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
