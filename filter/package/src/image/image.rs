//! The image's contents and labels.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use clap::Args;
use flate2::{Compression, GzBuilder};
use oci_spec::image::{
    ANNOTATION_DESCRIPTION, ANNOTATION_DOCUMENTATION, ANNOTATION_LICENSES, ANNOTATION_REVISION, ANNOTATION_SOURCE,
    ANNOTATION_TITLE, ANNOTATION_VERSION, Arch, ConfigBuilder, Digest, ImageConfigurationBuilder, ImageManifestBuilder,
    MediaType, Os, RootFsBuilder, SCHEMA_VERSION,
};
use tar::{Builder, EntryType, Header};

use crate::about::{DESCRIPTION, LICENSES, VERSION};
use crate::layout::{self, Layout};

/// The file that Istio and Envoy Gateway look for in a layer.
const FILE: &str = "plugin.wasm";

/// The labels of every image of this version.
const LABELS: [(&str, &str); 4] = [
    (ANNOTATION_TITLE, "bulk-reshuffle"),
    (ANNOTATION_DESCRIPTION, DESCRIPTION),
    (ANNOTATION_LICENSES, LICENSES),
    (ANNOTATION_VERSION, VERSION),
];

/// The labels that differ between images. Empty values are omitted.
#[derive(Debug, Default, Args)]
pub struct Origin {
    /// The commit from which the filter was built.
    #[arg(long, default_value = "")]
    revision: String,
    /// The URL of the repository with this commit.
    #[arg(long, default_value = "")]
    source: String,
    /// The CPU architecture, in Go's notation, of the nodes whose pods mount the image. Nothing else reads it.
    #[arg(long, default_value = "amd64")]
    architecture: String,
}

impl Origin {
    fn labels(&self) -> HashMap<String, String> {
        // The first page of the repository, as its host shows it.
        let documentation = if self.source.is_empty() { String::new() } else { format!("{}#readme", self.source) };
        let origin = [
            (ANNOTATION_REVISION, self.revision.as_str()),
            (ANNOTATION_SOURCE, self.source.as_str()),
            (ANNOTATION_DOCUMENTATION, documentation.as_str()),
        ];
        let labels = LABELS.into_iter().chain(origin).filter(|(_, text)| !text.is_empty());
        labels.map(|(label, text)| (label.to_owned(), text.to_owned())).collect()
    }
}

/// Writes the image of a module, and returns the digest of its manifest.
///
/// Istio and Envoy Gateway accept several kinds of images. This kind, with an ordinary gzip layer, is the one that a
/// container runtime can also mount.
pub fn write(module: &[u8], origin: &Origin, layout: &Layout) -> Result<Digest> {
    let (archive, labels) = (archived(module)?, origin.labels());
    let layer = layout.add(MediaType::ImageLayerGzip, &compressed(&archive)?)?;
    let content = RootFsBuilder::default().typ("layers").diff_ids([layout::digest(&archive)?.to_string()]).build()?;
    let configuration = ImageConfigurationBuilder::default()
        .architecture(Arch::from(origin.architecture.as_str()))
        .os(Os::Linux)
        .config(ConfigBuilder::default().labels(labels.clone()).build()?)
        .rootfs(content)
        .build()?;
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(layout.add_json(MediaType::ImageConfig, &configuration)?)
        .layers([layer])
        .annotations(labels)
        .build()?;
    let manifest = layout.add_json(MediaType::ImageManifest, &manifest)?;
    let digest = manifest.digest().clone();
    layout.finish(manifest, VERSION)?;
    Ok(digest)
}

/// Returns a tar archive with only the module: readable by all, owned by root, without a date.
fn archived(module: &[u8]) -> Result<Vec<u8>> {
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
fn compressed(archive: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use flate2::read::GzDecoder;
    use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};
    use tempfile::TempDir;

    use super::*;

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn origin() -> Origin {
        Origin { revision: "c0ffee".into(), source: "https://example.org/x".into(), architecture: "arm64".into() }
    }

    /// Writes an image into a new folder, and returns the folder and the digest of the manifest.
    fn made(module: &[u8], origin: &Origin) -> (TempDir, String) {
        let folder = TempDir::new().unwrap();
        let digest = write(module, origin, &Layout::create(folder.path()).unwrap()).unwrap();
        (folder, digest.to_string())
    }

    /// Reads a blob, and checks that its digest and size match its descriptor.
    fn blob(folder: &TempDir, descriptor: &Descriptor) -> Vec<u8> {
        let content = fs::read(folder.path().join("blobs/sha256").join(descriptor.digest().digest())).unwrap();
        assert_eq!(layout::digest(&content).unwrap(), *descriptor.digest());
        assert_eq!(content.len() as u64, descriptor.size());
        content
    }

    fn manifest(folder: &TempDir) -> (Descriptor, ImageManifest) {
        let index = ImageIndex::from_file(folder.path().join("index.json")).unwrap();
        let [descriptor] = index.manifests().as_slice() else { panic!("{index:?}") };
        (descriptor.clone(), serde_json::from_slice(&blob(folder, descriptor)).unwrap())
    }

    #[test]
    fn the_layer_contains_only_the_module_without_date_or_owner() {
        let (folder, digest) = made(MODULE, &origin());
        let (descriptor, manifest) = manifest(&folder);
        assert_eq!(descriptor.digest().to_string(), digest);
        let [layer] = manifest.layers().as_slice() else { panic!("{manifest:?}") };
        assert_eq!(layer.media_type(), &MediaType::ImageLayerGzip);
        let (mut archive, compressed) = (Vec::new(), blob(&folder, layer));
        GzDecoder::new(compressed.as_slice()).read_to_end(&mut archive).unwrap();
        let configuration: ImageConfiguration = serde_json::from_slice(&blob(&folder, manifest.config())).unwrap();
        assert_eq!(configuration.rootfs().diff_ids(), &[layout::digest(&archive).unwrap().to_string()]);
        assert_eq!(configuration.created(), &None);
        let mut files = 0;
        for file in tar::Archive::new(archive.as_slice()).entries().unwrap() {
            let (mut file, mut content) = (file.unwrap(), Vec::new());
            file.read_to_end(&mut content).unwrap();
            let header = file.header();
            assert_eq!(file.path().unwrap().to_str(), Some("plugin.wasm"));
            assert_eq!(content, MODULE);
            assert_eq!([header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()], [0; 3]);
            assert_eq!(header.mode().unwrap(), 0o644);
            files += 1;
        }
        assert_eq!(files, 1);
    }

    #[test]
    fn labels_name_the_origin_and_omit_unknown_values() {
        let labelled = |origin: &Origin| {
            let (folder, _) = made(MODULE, origin);
            let (_, manifest) = manifest(&folder);
            let configuration: ImageConfiguration = serde_json::from_slice(&blob(&folder, manifest.config())).unwrap();
            assert_eq!(configuration.labels_of_config(), manifest.annotations().as_ref());
            let labels = manifest.annotations().clone().unwrap();
            let name = |label: &str| label.strip_prefix("org.opencontainers.image.").unwrap().to_owned();
            let mut named: Vec<_> = labels.into_iter().map(|(label, text)| (name(&label), text)).collect();
            named.sort();
            (configuration.architecture().to_string(), named)
        };
        let (architecture, labels) = labelled(&origin());
        assert_eq!(architecture, "arm64");
        let names: Vec<_> = labels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["description", "documentation", "licenses", "revision", "source", "title", "version"]);
        let texts = [1, 3, 4, 6].map(|at| labels[at].1.as_str());
        assert_eq!(texts, ["https://example.org/x#readme", "c0ffee", "https://example.org/x", VERSION]);
        let (_, labels) = labelled(&Origin::default());
        assert_eq!(labels.len(), 4);
    }

    #[test]
    fn the_image_depends_only_on_the_module_and_the_labels() {
        let digest = |module: &[u8], origin: &Origin| made(module, origin).1;
        let first = digest(MODULE, &origin());
        // Each image is built from new hash maps.
        for _ in 0..10 {
            assert_eq!(digest(MODULE, &origin()), first);
        }
        assert_ne!(digest(b"\0asm\x01\0\0\0\0", &origin()), first);
        assert_ne!(digest(MODULE, &Origin::default()), first);
    }

    #[test]
    fn a_new_image_replaces_the_previous_one() {
        let folder = TempDir::new().unwrap();
        for module in [b"\0asm\x01\0\0\0\0".as_slice(), MODULE] {
            write(module, &origin(), &Layout::create(folder.path()).unwrap()).unwrap();
        }
        // Layer, configuration and manifest.
        assert_eq!(fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 3);
    }
}
