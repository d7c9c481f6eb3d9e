//! Builds the module that is shipped from the linker's output.
//!
//! ```text
//! bulk-reshuffle-module LINKED SHIPPED
//! ```
//!
//! The plug-in may import only functions that Envoy and Istio provide to every proxy-wasm plug-in; with any other
//! import it would not load. It exports only the callbacks that do something. The SDK exports all callbacks, and Envoy
//! enters the VM for each one that a module has: for every chunk of every response, and four times for a request that
//! the filter answers. That takes 3 % of the instructions that Envoy spends on such a request.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]

mod shipped;

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [linked, shipped] = arguments.as_slice() else { bail!("usage: bulk-reshuffle-module LINKED SHIPPED") };
    let (linked, shipped) = (Path::new(linked), Path::new(shipped));
    let module = fs::read(linked).with_context(|| format!("cannot read {}", linked.display()))?;
    let module = shipped::shipped(&module).with_context(|| format!("{} cannot be shipped", linked.display()))?;
    if let Some(folder) = shipped.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    // An Envoy may load the module at this moment, so it is replaced only by a different one, and as a whole.
    if fs::read(shipped).is_ok_and(|found| found == module) {
        return Ok(());
    }
    let new = shipped.with_extension("new");
    fs::write(&new, module).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, shipped).with_context(|| format!("cannot write {}", shipped.display()))
}
