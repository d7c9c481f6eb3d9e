//! Tests the project's pages.
//!
//! [`Page`] reads a Markdown file: its links, its anchors, and its [`Block`]s of commands. Each command is covered in
//! one place: targets of `make` by the [`Makefile`], commands that need more than this machine by [`ELSEWHERE`], and
//! all others by `make test-docs`, which runs them unchanged.

mod block;
mod elsewhere;
mod makefile;
mod page;

pub use block::{Block, Command, Make};
pub use elsewhere::{ELSEWHERE, Elsewhere, Test};
pub use makefile::{Makefile, Need, OUTSIDE_CI};
pub use page::Page;

use std::path::{Path, PathBuf};

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
