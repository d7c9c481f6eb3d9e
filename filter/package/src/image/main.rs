//! Builds the OCI image that contains the filter: for a `WasmPlugin`, an `EnvoyExtensionPolicy` or a volume of a pod.
//!
//! It prints the digest of the image's manifest. The digest identifies the image in any registry, and is the `sha256`
//! of a `WasmPlugin`. The same module with the same labels produces the same image, byte for byte: it has no dates and
//! no owners, and its order is fixed.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]

#[path = "../about.rs"]
mod about;
mod image;
mod layout;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::image::Origin;
use crate::layout::Layout;

/// Builds the OCI image that contains the filter, and prints the digest of its manifest.
#[derive(Debug, Parser)]
struct Arguments {
    /// The filter's module, as `make build` writes it.
    module: PathBuf,
    /// The folder for the image, an OCI image layout. An existing layout is replaced.
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
