//! The configurations of `envoy` and `examples/kubernetes`, with the addresses of a test.

mod gateway_files;
mod kubernetes_pod;

use std::fs::{self, DirEntry};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, Launcher, Tools, port};
use serde_json::Value;

pub use gateway_files::{gateway_files, reach_nodes_by_http2};
pub use kubernetes_pod::KubernetesPod;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The folder `envoy` of the checkout, unchanged except for the ports, addresses and paths that a test must replace.
#[derive(Debug)]
pub struct ShippedFiles {
    folder: PathBuf,
    replacements: Vec<(String, String)>,
    port: u16,
    admin_port: u16,
    workers: u32,
    launcher: Launcher,
}

impl ShippedFiles {
    /// Prepares copies in this folder, with free ports for Envoy.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let (port, admin_port) = (port::free()?, port::free()?);
        let (folder, launcher) = (folder.into(), Launcher::default());
        Ok(Self { folder, replacements: Vec::new(), port, admin_port, workers: 1, launcher })
    }

    pub fn ports(self, port: u16, admin_port: u16) -> Self {
        Self { port, admin_port, ..self }
    }

    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// Replaces all occurrences of a text, which must occur. Ports and the paths of parts are replaced afterwards.
    pub fn replace(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.replacements.push((from.into(), to.into()));
        self
    }

    pub fn nodes(self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        (9201..).zip(addresses).fold(self, |files, (shipped, node)| files.port(shipped, node.port()))
    }

    /// Replaces a port on loopback.
    pub fn port(self, shipped: u16, port: u16) -> Self {
        self.replace(at(shipped), at(port))
    }

    pub fn launcher(self, launcher: Launcher) -> Self {
        Self { launcher, ..self }
    }

    pub async fn start(self, file: &str) -> Result<Envoy> {
        let tools = Tools::find()?;
        let file = self.write(&tools, file)?;
        let options = EnvoyOptions {
            port: Some(self.port),
            admin_port: Some(self.admin_port),
            concurrency: self.workers,
            launcher: self.launcher,
            ..EnvoyOptions::new(self.folder)
        };
        Envoy::start_file(&tools, &file, options).await
    }

    fn write(&self, tools: &Tools, name: &str) -> Result<PathBuf> {
        let (from, to) = (tools.root.join("envoy"), self.folder.join("envoy"));
        fs::create_dir_all(to.join("parts")).with_context(|| format!("cannot create {}", to.display()))?;
        let part = |entry: io::Result<DirEntry>| Ok(Path::new("parts").join(entry?.file_name()));
        let parts: io::Result<Vec<PathBuf>> = fs::read_dir(from.join("parts"))?.map(part).collect();
        let names: Vec<PathBuf> = parts?.into_iter().chain([name.into()]).collect();
        let read = |name: &PathBuf| fs::read_to_string(from.join(name)).with_context(|| format!("{}", name.display()));
        let mut texts: Vec<String> = names.iter().map(read).collect::<Result<_>>()?;
        let ports = [(9200, self.port), (9901, self.admin_port)].map(|(shipped, port)| (at(shipped), at(port)));
        for (from, to) in self.replacements.iter().chain(&ports) {
            ensure!(texts.iter().any(|text| text.contains(from)), "{name} has no {from}");
            texts.iter_mut().for_each(|text| *text = text.replace(from, to));
        }
        let parts = format!("{}/", to.join("parts").display());
        for (name, text) in names.iter().zip(texts) {
            fs::write(to.join(name), text.replace("envoy/parts/", &parts))?;
        }
        Ok(to.join(name))
    }
}

/// Returns a port on loopback, as the files write it.
fn at(port: u16) -> String {
    format!("address: 127.0.0.1, port_value: {port}}}")
}

/// Returns the only YAML block of a page that contains this word, as JSON.
pub fn yaml_of_page(page: &str, word: &str) -> Result<Value> {
    let block = block_of_page(page, "yaml", word)?;
    serde_saphyr::from_str(&block).with_context(|| format!("not YAML: {block}"))
}

/// Returns the only block in this language of a page that contains this word.
pub fn block_of_page(page: &str, language: &str, word: &str) -> Result<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(page))?;
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    let marked: Vec<&str> = blocks.filter(|block| block.contains(word)).collect();
    ensure!(marked.len() == 1, "{page} has {} blocks with {word}", marked.len());
    Ok(marked.concat())
}
