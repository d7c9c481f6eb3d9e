use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// A Secret that is mounted as a folder, in the way of the kubelet. Each file is a link into the folder that the link
/// `..data` names. The kubelet replaces this link when the Secret changes.
#[derive(Debug)]
pub struct SecretVolume {
    pub folder: PathBuf,
    version: usize,
}

impl SecretVolume {
    /// Mounts a Secret at a new folder.
    pub fn mount(folder: PathBuf, secret: &Value) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        let mut mounted = Self { folder, version: 0 };
        mounted.update(secret)?;
        Ok(mounted)
    }

    /// Replaces the content, as the kubelet does some time after the Secret has changed.
    pub fn update(&mut self, secret: &Value) -> Result<()> {
        self.version += 1;
        let (old, new) = (format!("..{}", self.version - 1), format!("..{}", self.version));
        fs::create_dir(self.folder.join(&new))?;
        let files = secret.get("stringData").and_then(Value::as_object).context("the Secret has no text")?;
        for (name, text) in files {
            fs::write(self.folder.join(&new).join(name), text.as_str().context("not a text")?)?;
        }
        let link = self.folder.join("..data_tmp");
        symlink(&new, &link)?;
        fs::rename(link, self.folder.join("..data"))?;
        for name in files.keys().filter(|_| self.version == 1) {
            symlink(Path::new("..data").join(name), self.folder.join(name))?;
        }
        if self.version > 1 {
            fs::remove_dir_all(self.folder.join(old))?;
        }
        Ok(())
    }
}
