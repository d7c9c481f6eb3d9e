//! The test of every helper of every client.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use bulk_reshuffle_e2e::{UnpackedProgram, go_environment};
use bulk_reshuffle_stack::{Distribution, Tools};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::sync::OnceCell;

use super::operation::{earlier_documents, later_documents, operations, stored};
use super::report::{Report, Told};
use crate::documents::documents;
use crate::execution::{self, bare};
use crate::shared_scene::SharedScene;

/// A client's helper for sending many operations.
#[derive(Debug)]
pub struct Helper {
    pub client: Client,
    /// The helper's name in the client's program.
    pub name: &'static str,
    pub told: Told,
    /// The options of each run of the program.
    pub styles: &'static [&'static [&'static str]],
    /// Whether each operation has a request of its own.
    pub is_single: bool,
}

/// A client, with its program in `tests/clients`.
#[derive(Debug, Clone, Copy)]
pub enum Client {
    /// The Python package of this name in `tests/tools/fetch.py`.
    Python(&'static str),
    JavaScript,
    Go,
    /// The Java library of this name in `tests/tools/fetch.py`, and the class of its program.
    Java(&'static str, &'static str),
    Ruby,
}

/// The option with which a client for Go encodes documents itself. They then end with a newline.
const WITH_NEWLINES: &str = "--json-reader";

/// The options of clients for Go that send each operation in a request of its own.
pub const OF_GO: &[&[&str]] = &[&["--single"], &["--single", "--compress"], &["--single", WITH_NEWLINES]];

/// The options for helpers without `filter_path`.
pub const WITHOUT_FILTER_PATH: &[&[&str]] = &[&[], &["--compress"]];

impl Helper {
    /// Creates a helper with the default options, and the options that make requests and answers smaller.
    pub const fn new(client: Client, name: &'static str, told: Told) -> Self {
        Self { client, name, told, styles: &[&[], &["--compress", "--filter-path"]], is_single: false }
    }

    /// Creates a client that sends each operation in a request of its own, with these options.
    pub const fn single(client: Client, name: &'static str, styles: &'static [&'static [&'static str]]) -> Self {
        Self { styles, is_single: true, ..Self::new(client, name, Told::All) }
    }

    /// Checks that the client learns the outcome of each operation, that the cluster has the documents, and that the
    /// filter has split every request.
    pub async fn check(&self, distribution: Distribution) {
        let name = format!("{:?}-{}-{}", self.client, self.name, self.is_single)
            .replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let scene =
            SharedScene::start_in_front_of(distribution, &name, json!({"single_documents": self.is_single})).await;
        for (number, style) in self.styles.iter().enumerate() {
            let index = format!("{name}-{number}").to_lowercase();
            scene.index(&index, json!({"number_of_shards": 5})).await;
            scene.bulk(&earlier_documents(&index)).await.ok().unwrap();
            let before = scene.counts().await;

            let (operations, file) = (operations(), NamedTempFile::new().unwrap());
            let lines: String = operations.iter().map(|operation| operation.line() + "\n").collect();
            fs::write(&file, lines).unwrap();
            let mut command = self.client.command().await.unwrap();
            command.args(*style).args([self.name, &scene.envoy.url(""), &index]).arg(file.path());
            let printed = execution::run(&name, command, Stdio::null()).await.unwrap();

            Report::parse(&printed).check(&operations, self.told, self.is_single);
            let found = documents(&scene.client, &scene.direct(0, ""), &index).await.unwrap();
            assert_eq!(found.into_iter().map(stored).collect::<BTreeMap<_, _>>(), later_documents());
            let mut counted = scene.counts().await.since(&before);
            // The program also creates documents that exist.
            let mut passed = counted.passed.remove("often_refused").filter(|_| self.is_single).unwrap_or_default();
            if style.contains(&WITH_NEWLINES) {
                let written = operations.iter().filter(|operation| operation.action != "delete").count();
                assert_eq!(counted.passed.remove("document_body"), Some(written as u64));
                passed += written as u64;
            }
            counted.check_split(&format!("{name} {style:?}"));
            assert_eq!(counted.operations + passed, operations.len() as u64);
            assert_eq!(counted.single_documents, if self.is_single { counted.merged } else { 0 });
            assert!(counted.merged >= 4, "only {} requests", counted.merged);
        }
        scene.end().await;
    }
}

impl Client {
    async fn command(self) -> Result<Command> {
        let tools = Tools::find()?;
        let sources = tools.root.join("tests/clients");
        Ok(match self {
            Self::Python(package) => {
                let mut command = bare("python3");
                command.arg(sources.join("python/bulk.py")).env("PYTHONPATH", tools.folder(package)?);
                command
            }
            Self::JavaScript => {
                let mut command = bare(tools.folder("node")?.join("bin/node"));
                let packages = tools.folder("javascript-clients")?.join("node_modules");
                command.arg(sources.join("javascript/bulk.js")).env("NODE_PATH", packages);
                command
            }
            Self::Java(library, program) => {
                let (mut command, jars) = (bare(tools.java.join("bin/java")), tools.folder(library)?);
                // Java starts sooner without its second compiler.
                command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dstdout.encoding=UTF-8", "-cp"]);
                command.arg(format!("{0}:{0}/*", jars.display())).arg(program);
                command
            }
            Self::Ruby => {
                let ruby = UnpackedProgram::find(&tools, "ruby-client", "usr/bin/ruby", "ruby")?;
                let mut command = ruby.command();
                let roots = [tools.folder("ruby-client")?, PathBuf::from("/")];
                command.env("RUBYLIB", env::join_paths(roots.iter().flat_map(|root| ruby_packages(root)))?);
                command.arg(sources.join("ruby/single.rb"));
                command
            }
            Self::Go => bare(GO_PROGRAM.get_or_try_init(|| compile_go(&tools)).await?),
        })
    }
}

/// Returns the folders of Ruby's own libraries and of Debian's packages.
fn ruby_packages(root: &Path) -> Vec<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let pure = below(root.join("usr/lib/ruby"));
    let compiled = below(root.join("usr/lib")).flat_map(|folder| below(folder.join("ruby")));
    let gems = below(root.join("usr/share/rubygems-integration/all/gems")).map(|gem| gem.join("lib"));
    pure.chain(compiled).chain(gems).collect()
}

static GO_PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();

/// Compiles the Go program from modules that are already fetched.
async fn compile_go(tools: &Tools) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let program = target.join("bulk");
    let mut go = bare(tools.folder("go")?.join("bin/go"));
    go.args(["build", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(tools.root.join("tests/clients/go"))
        .env("HOME", &target)
        .envs(go_environment(tools)?);
    execution::run("go build", go, Stdio::null()).await?;
    Ok(program)
}
