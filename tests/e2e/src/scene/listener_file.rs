use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Envoy;
use serde_json::{Value, json};

/// The file from which Envoy loads its listener, and reloads it after each change.
#[derive(Debug)]
pub struct ListenerFile(PathBuf);

const HTTP_FILTERS: &str = "/filter_chains/0/filters/0/typed_config/http_filters";

impl ListenerFile {
    /// Finds the file of a shared Envoy.
    pub fn of(envoy: &Envoy) -> Result<Self> {
        Ok(Self(envoy.listener_file()?))
    }

    pub fn set_config(&self, config: &Value) -> Result<()> {
        self.change(|filter| set_config(filter, config))
    }

    /// Changes the filter's configuration and code, which starts another VM.
    pub fn set_code(&self, wasm: &Path, config: &Value) -> Result<()> {
        self.change(|filter| {
            set_config(filter, config)?;
            *at(filter, "/vm_config/vm_id")? = wasm.display().to_string().into();
            *at(filter, "/vm_config/code/local/filename")? = wasm.display().to_string().into();
            Ok(())
        })
    }

    pub fn remove_listener(&self) -> Result<()> {
        write(&self.0, Vec::new())
    }

    /// Changes the `PluginConfig` of the wasm filter.
    fn change(&self, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
        let mut listeners: Value = serde_json::from_slice(&fs::read(&self.0)?)?;
        let mut listener = at(&mut listeners, "/resources/0")?.take();
        let filters = at(&mut listener, HTTP_FILTERS)?.as_array_mut().context("no filters")?;
        let filter = filters.iter_mut().find_map(|filter| filter.pointer_mut("/typed_config/config"));
        change(filter.context("no wasm filter")?)?;
        write(&self.0, vec![listener])
    }
}

fn set_config(filter: &mut Value, config: &Value) -> Result<()> {
    *at(filter, "/configuration/value")? = config.to_string().into();
    Ok(())
}

fn write(path: &Path, listeners: Vec<Value>) -> Result<()> {
    replace_file(path, json!({"resources": listeners}).to_string())
}

/// Replaces a file by a rename, which is what Envoy watches for.
pub fn replace_file(path: &Path, text: String) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(new, path)?)
}

/// Replaces a text in a file, which must have it: see [`replace_file`].
pub fn replace_in_file(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.contains(from), "{from} is not in {text}");
    replace_file(path, text.replace(from, to))
}

fn at<'a>(value: &'a mut Value, pointer: &str) -> Result<&'a mut Value> {
    value.pointer_mut(pointer).with_context(|| format!("{pointer} is missing"))
}
