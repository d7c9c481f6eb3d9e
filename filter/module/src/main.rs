//! Makes the module that is shipped of the one that the linker made.
//!
//! ```text
//! bulk-reshuffle-module LINKED SHIPPED
//! ```
//!
//! The plug-in may import only what Envoy and Istio give to every proxy-wasm plug-in; with anything else it would not
//! load. And it exports only the callbacks that do something. The SDK exports all that there are, and Envoy enters the
//! VM for each one that a module has: for every piece of every response, four times for a request that the filter
//! answers, with 3 % of the instructions that Envoy takes for it.

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
    fs::write(shipped, module).with_context(|| format!("cannot write {}", shipped.display()))
}
