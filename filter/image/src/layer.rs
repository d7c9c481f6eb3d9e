//! The image's only layer.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// The file that Istio and Envoy Gateway look for in a layer.
const FILE: &str = "plugin.wasm";

/// Returns a tar archive with only the module: readable by all, owned by root, without a date.
pub fn archive(module: &[u8]) -> Result<Vec<u8>> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(module.len().try_into()?);
    let mut archive = Builder::new(Vec::new());
    archive.append_data(&mut header, FILE, module)?;
    Ok(archive.into_inner()?)
}

/// Returns the compressed archive. The compressor is the same on all machines, and gzip's header has neither a date nor
/// the name of an operating system.
pub fn compressed(archive: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}
