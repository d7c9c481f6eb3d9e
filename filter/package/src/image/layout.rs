//! The folder that `crane push` and `skopeo copy oci:…` read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use oci_spec::image::{
    ANNOTATION_REF_NAME, Descriptor, Digest, ImageIndexBuilder, MediaType, OciLayoutBuilder, SCHEMA_VERSION,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The file that marks the folder as an OCI image layout.
const MARK: &str = "oci-layout";

/// An OCI image layout: blobs under their digests, and an index that names the image.
pub struct Layout {
    folder: PathBuf,
}

impl Layout {
    /// Creates an empty layout. Removes the folder if it has a layout; otherwise keeps its other files.
    pub fn create(folder: &Path) -> Result<Self> {
        if folder.join(MARK).is_file() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot create {}", blobs.display()))?;
        let layout = Self { folder: folder.to_path_buf() };
        layout.write(MARK, &json(&OciLayoutBuilder::default().image_layout_version("1.0.0").build()?)?)?;
        Ok(layout)
    }

    /// Adds a blob, and returns its descriptor.
    pub fn add(&self, media_type: MediaType, content: &[u8]) -> Result<Descriptor> {
        let digest = digest(content)?;
        self.write(&format!("blobs/sha256/{}", digest.digest()), content)?;
        Ok(Descriptor::new(media_type, content.len().try_into()?, digest))
    }

    /// Adds a value as a JSON blob.
    pub fn add_json(&self, media_type: MediaType, content: &impl Serialize) -> Result<Descriptor> {
        self.add(media_type, &json(content)?)
    }

    /// Writes the index, which names the layout's only image.
    pub fn finish(&self, mut manifest: Descriptor, name: &str) -> Result<()> {
        manifest.set_annotations(Some(HashMap::from([(ANNOTATION_REF_NAME.to_owned(), name.to_owned())])));
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests([manifest])
            .build()?;
        self.write("index.json", &json(&index)?)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns the digest that names a blob.
pub fn digest(content: &[u8]) -> Result<Digest> {
    Ok(format!("sha256:{:x}", Sha256::digest(content)).try_into()?)
}

/// Returns JSON with sorted keys. Labels are in hash maps, whose order differs between runs; `Value` sorts them.
fn json(content: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(content)?)?)
}
