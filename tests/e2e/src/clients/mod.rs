//! Clients with one connection or with TLS, which control how they send a request.

mod http2_client;
mod raw_client;
mod tls_client;

pub use http2_client::Http2Client;
pub use raw_client::RawClient;
pub use tls_client::TlsClient;

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files and connections that this process, and those it starts from now on, may have open.
pub fn raise_file_limit(files: u64) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    ensure!(maximum.is_none_or(|maximum| maximum >= files), "the system allows {maximum:?} open files, not {files}");
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })?)
}
