use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process, and those that it starts from now on, have at least this many files and connections open.
pub fn raise_file_limit(files: u64) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    ensure!(maximum.is_none_or(|maximum| maximum >= files), "the system allows {maximum:?} open files, not {files}");
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })?)
}
