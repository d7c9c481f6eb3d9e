use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;
use serde_json::Value;

/// A copy of `examples/clients` with the documents of a test and the dependencies of all programs.
#[derive(Debug)]
pub struct ExampleClients {
    folder: PathBuf,
    tools: Tools,
    compiled: PathBuf,
}

impl ExampleClients {
    /// Copies the examples into a folder. `temporary` is `CARGO_TARGET_TMPDIR`, where compiled files stay.
    pub fn new(tools: &Tools, folder: &Path, temporary: &str) -> Result<Self> {
        let (place, tool) = (|name: &str| folder.join(name), |name: &str| tools.folder(name));
        copy(&tools.root.join("examples/clients"), folder)?;
        symlink(tool("javascript-clients")?.join("node_modules"), place("javascript/node_modules"))?;
        symlink(tool("elasticsearch-java")?, place("java/lib"))?;
        fs::create_dir(place("bin"))?;
        symlink(tool("node")?.join("bin/node"), place("bin/node"))?;
        symlink(tool("go")?.join("bin/go"), place("bin/go"))?;
        // `java File.java` needs a compiler, which the runtime does not have.
        let (java, compiler) = (tools.java.join("bin/java"), tool("ecj")?.join("ecj-3.40.0.jar"));
        let script = format!(
            "#!/bin/sh\nset -e\n\
             '{java}' -jar '{compiler}' -21 -cp \"$(echo java/lib/*.jar | tr ' ' ':')\" -d java/classes \"$3\"\n\
             shift 3\nexec '{java}' -cp 'java/classes:java/lib/*' IndexDocuments \"$@\"\n",
            java = java.display(),
            compiler = compiler.display()
        );
        fs::write(place("bin/java"), script)?;
        fs::set_permissions(place("bin/java"), fs::Permissions::from_mode(0o755))?;
        let compiled = Path::new(temporary).join("go");
        Ok(Self { folder: folder.to_owned(), tools: tools.clone(), compiled })
    }

    /// Writes the documents that the programs index.
    pub fn write(&self, documents: impl Iterator<Item = Value>) -> Result<()> {
        let lines: String = documents.map(|document| format!("{document}\n")).collect();
        Ok(fs::write(self.folder.join("documents.ndjson"), lines)?)
    }

    /// Returns a command of the README, in an environment with only the variables that it needs.
    pub fn shell(&self, command: &str, url: &str, api_key: Option<&str>) -> Result<Command> {
        let path = std::env::var("PATH")?;
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.folder);
        shell
            .env_clear()
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("ELASTICSEARCH_URL", url)
            .envs(api_key.map(|key| ("ELASTICSEARCH_API_KEY", key)))
            .env("PYTHONPATH", self.tools.folder("elasticsearch-py-8")?)
            .env("HOME", &self.compiled)
            .envs(go_environment(&self.tools)?);
        Ok(shell)
    }
}

/// Returns the settings with which Go compiles a program from the fetched modules. They are those of
/// `tests/tools/fetch.py`, so that the programs share its build cache: the user's, in which Go's own library is compiled
/// already. Without optimization, because most of the time goes into interfaces that are not used here.
pub fn go_environment(tools: &Tools) -> Result<Vec<(&'static str, OsString)>> {
    let user = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let caches = user("XDG_CACHE_HOME").or_else(|| Some(user("HOME")?.join(".cache")));
    let cache = user("GOCACHE").or_else(|| Some(caches?.join("go-build"))).context("HOME is not set")?;
    Ok(vec![
        ("GOCACHE", cache.into()),
        ("GOMODCACHE", tools.folder("go-clients")?.into()),
        ("GOFLAGS", "-mod=readonly -buildvcs=false -trimpath '-gcflags=all=-N -l -dwarf=false'".into()),
        ("GOGC", "800".into()),
        ("GOPROXY", "off".into()),
        ("GOTOOLCHAIN", "local".into()),
        ("GOWORK", "off".into()),
        ("CGO_ENABLED", "0".into()),
    ])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &place)?,
            false => drop(fs::copy(entry.path(), place)?),
        }
    }
    Ok(())
}
