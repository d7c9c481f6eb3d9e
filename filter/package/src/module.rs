//! Builds the module that is shipped from the linker's output.
//!
//! ```text
//! bulk-reshuffle-module LINKED SHIPPED
//! bulk-reshuffle-module SHIPPED           prints what the module says about itself
//! ```
//!
//! The plug-in may import only functions that Envoy and Istio provide to every proxy-wasm plug-in; with any other
//! import it would not load. It exports only the callbacks that do something. The SDK exports all callbacks, and Envoy
//! enters the VM for each one that a module has: for every chunk of every response, and four times for a request that
//! the filter answers. That takes 3 % of the instructions that Envoy spends on such a request.
//!
//! Custom sections say which version and commit a module is. They have the names of the OCI annotations, and the format
//! in which `wasm-tools metadata` reads and writes them.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]

mod about;

use std::convert::Infallible;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CustomSection, ExportSection, ImportSection, Module};
use wasmparser::{Export, Import, ImportSectionReader, KnownCustom, Parser, Payload};

use about::{DESCRIPTION, LICENSES, VERSION};

/// The WASI functions that all of Envoy's hosts provide: no files, no sockets.
const WASI: &[&str] = &["clock_time_get", "environ_get", "environ_sizes_get", "fd_write", "proc_exit", "random_get"];

/// Callbacks that the SDK exports and the plug-in does not use. Envoy would call them for each request or response.
const UNUSED: &[&str] = &["proxy_on_log", "proxy_on_response_headers", "proxy_on_response_trailers"];

/// The commit from which the filter was built. Makefile sets it.
const COMMIT: &str = "BULK_RESHUFFLE_COMMIT";

/// The custom sections, in the order in which they are written and printed.
const SECTIONS: [&str; 4] = ["description", "version", "revision", "licenses"];

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [shipped] => inspect(Path::new(shipped)),
        [linked, shipped] => write(Path::new(linked), Path::new(shipped)),
        _ => bail!("usage: bulk-reshuffle-module [LINKED] SHIPPED"),
    }
}

/// Prints what a module says about itself.
fn inspect(shipped: &Path) -> Result<()> {
    let module = fs::read(shipped).with_context(|| format!("cannot read {}", shipped.display()))?;
    let told = described(&module).with_context(|| format!("{} is not a module", shipped.display()))?;
    for (name, text) in &told {
        println!("{name:<14}{text}");
    }
    println!("{:<14}{}", "bytes", module.len());
    Ok(())
}

fn write(linked: &Path, shipped: &Path) -> Result<()> {
    let module = fs::read(linked).with_context(|| format!("cannot read {}", linked.display()))?;
    let commit = env::var(COMMIT).unwrap_or_default();
    let module = ship(&module, &commit).with_context(|| format!("{} cannot be shipped", linked.display()))?;
    if let Some(folder) = shipped.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    // An Envoy may load the module at this moment, so it is replaced only by a different one, and as a whole.
    if fs::read(shipped).is_ok_and(|found| found == module) {
        return Ok(());
    }
    // Two builds may write at once.
    let new = shipped.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, module).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, shipped).with_context(|| format!("cannot write {}", shipped.display()))
}

/// Returns the module without the callbacks that do nothing, and with sections that describe it.
///
/// Fails if the input is not a WebAssembly module, or imports functions that proxy-wasm hosts do not guarantee.
fn ship(linked: &[u8], commit: &str) -> Result<Vec<u8>> {
    let (mut module, mut shipping) = (Module::new(), Shipping::default());
    shipping.parse_core_module(&mut module, Parser::new(0), linked)?;
    if !shipping.refused.is_empty() {
        bail!("the module imports functions that proxy-wasm hosts do not guarantee: {}", shipping.refused.join(", "));
    }
    let texts = [DESCRIPTION, VERSION, commit, LICENSES];
    for (name, text) in SECTIONS.into_iter().zip(texts).filter(|(_, text)| !text.is_empty()) {
        module.section(&CustomSection { name: name.into(), data: text.as_bytes().into() });
    }
    Ok(module.finish())
}

/// Returns the texts of a module's sections by their names, and the compilers that made it.
fn described(module: &[u8]) -> Result<Vec<(String, String)>> {
    let mut told = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CustomSection(section) = payload? else { continue };
        if SECTIONS.contains(&section.name()) {
            told.push((section.name().to_owned(), String::from_utf8_lossy(section.data()).into_owned()));
        } else if let KnownCustom::Producers(fields) = section.as_known() {
            for field in fields {
                let field = field?;
                for value in field.values {
                    let value = value?;
                    told.push((field.name.to_owned(), format!("{} {}", value.name, value.version)));
                }
            }
        }
    }
    Ok(told)
}

/// Copies a module without the unused callbacks, and collects the imports that are not allowed.
#[derive(Default)]
struct Shipping {
    refused: Vec<String>,
}

impl Reencode for Shipping {
    type Error = Infallible;

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error> {
        for import in section.clone().into_imports() {
            let Import { module, name, .. } = import?;
            let is_promised = match module {
                "env" => name.starts_with("proxy_"),
                _ => module == "wasi_snapshot_preview1" && WASI.contains(&name),
            };
            if !is_promised {
                self.refused.push(format!("{module}.{name}"));
            }
        }
        utils::parse_import_section(self, imports, section)
    }

    fn parse_export(&mut self, exports: &mut ExportSection, export: Export<'_>) -> Result<(), Error> {
        if UNUSED.contains(&export.name) { Ok(()) } else { utils::parse_export(self, exports, export) }
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{CodeSection, EntityType, ExportKind, Function, FunctionSection, TypeSection};

    use super::*;

    /// Returns a module that imports these functions, and exports its own function under each of these names.
    fn module(imported: &[(&str, &str)], exported: &[&str]) -> Vec<u8> {
        let (mut types, mut imports, mut functions) =
            (TypeSection::new(), ImportSection::new(), FunctionSection::new());
        let (mut exports, mut code, mut function) = (ExportSection::new(), CodeSection::new(), Function::new([]));
        types.ty().function([], []);
        for (module, name) in imported {
            imports.import(module, name, EntityType::Function(0));
        }
        functions.function(0);
        for name in exported {
            exports.export(name, ExportKind::Func, u32::try_from(imported.len()).unwrap());
        }
        function.instructions().end();
        code.function(&function);
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
        module.finish()
    }

    fn exports(module: &[u8]) -> Vec<String> {
        let sections = Parser::new(0).parse_all(module).filter_map(|payload| match payload.unwrap() {
            Payload::ExportSection(section) => Some(section),
            _ => None,
        });
        sections.flatten().map(|export| export.unwrap().name.to_owned()).collect()
    }

    #[test]
    fn unused_callbacks_are_removed_and_other_exports_stay() {
        let promised = &[("env", "proxy_log"), ("wasi_snapshot_preview1", "clock_time_get")];
        let linked =
            module(promised, &["proxy_on_log", "proxy_on_request_body", "proxy_on_response_headers", "memory"]);
        let shipped = ship(&linked, "c0ffee").unwrap();
        assert_eq!(exports(&shipped), ["proxy_on_request_body", "memory"]);
        assert!(shipped.starts_with(&module(promised, &["proxy_on_request_body", "memory"])));
    }

    #[test]
    fn a_module_says_which_version_and_commit_it_is() {
        let told = |commit: &str| described(&ship(&module(&[], &["memory"]), commit).unwrap()).unwrap();
        let texts = [
            ("description", "An Envoy filter that makes bulk writes to Elasticsearch and OpenSearch cheaper."),
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", "c0ffee"),
            ("licenses", "Apache-2.0"),
        ];
        assert_eq!(told("c0ffee"), texts.map(|(name, text)| (name.to_owned(), text.to_owned())));
        let unknown: Vec<_> = told("").into_iter().map(|(name, _)| name).collect();
        assert_eq!(unknown, ["description", "version", "licenses"]);
        assert!(described(b"#!/bin/sh").is_err());
    }

    #[test]
    fn the_error_names_the_imports_that_hosts_do_not_guarantee() {
        let imported =
            &[("env", "proxy_log"), ("env", "getpid"), ("wasi_snapshot_preview1", "fd_read"), ("js", "proxy_log")];
        let error = ship(&module(imported, &[]), "").unwrap_err().to_string();
        assert!(error.ends_with(": env.getpid, wasi_snapshot_preview1.fd_read, js.proxy_log"), "{error}");
    }

    #[test]
    fn input_that_is_not_a_module_is_refused() {
        assert!(ship(b"#!/bin/sh", "").is_err());
        assert!(ship(&module(&[], &["a"])[..20], "").is_err());
    }
}
