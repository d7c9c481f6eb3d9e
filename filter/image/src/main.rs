//! Makes the OCI image that holds the filter: for a `WasmPlugin`, an `EnvoyExtensionPolicy` or a volume of a pod.
//!
//! It prints the digest of the image's manifest: the name of this very image in any registry, and what a `WasmPlugin`
//! wants as its `sha256`. The same module with the same labels makes the same image, byte for byte: no dates, no
//! owners, and everything in its order.

mod image;
mod layer;
mod layout;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::image::Origin;
use crate::layout::Layout;

/// Makes the OCI image that holds the filter, and prints the digest of its manifest.
#[derive(Debug, Parser)]
struct Arguments {
    /// The filter, as `make build` leaves it.
    module: PathBuf,
    /// The folder for the image, an OCI image layout; one that is there is replaced.
    layout: PathBuf,
    #[command(flatten)]
    origin: Origin,
}

fn main() -> Result<()> {
    let Arguments { module, layout, origin } = Arguments::parse();
    let module = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    let digest = image::write(&module, &origin, &Layout::create(&layout)?)?;
    println!("{digest}");
    Ok(())
}
