//! A table of the routines natively and inside Envoy's V8: `make bench-core`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_bench::routines::Measurement;
use bulk_reshuffle_bench::tables::table;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};

/// The environment variable that names the compiled plug-in.
const WASM: &str = "ROUTINES_WASM";

/// The time limit. Some seventy measurements take less than a second each, but machines may be busy.
const LIMIT: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> Result<()> {
    let wasm = PathBuf::from(std::env::var_os(WASM).with_context(|| format!("{WASM} is not set: make bench-core"))?);
    eprintln!("measuring natively");
    let natively: Vec<Measurement> = (0..).map_while(Measurement::take).collect();
    eprintln!("measuring in Envoy");
    let in_envoy = measure_in_envoy(wasm.canonicalize()?).await?;
    let figure_names = ["native: ns/operation", "fastest", "MB/s", "V8: ns/operation", "fastest", "MB/s"];
    let mut table = table(&[&["routine", "load"][..], &figure_names].concat(), 2);
    for (native, vm) in natively.iter().zip(&in_envoy) {
        let name = [native.routine.clone(), native.load.to_string()];
        table.add_row(name.into_iter().chain(figures(native)).chain(figures(vm)));
    }
    println!("{table}");
    Ok(())
}

/// Returns the nanoseconds of an operation, median and smallest, and the median throughput in MB/s.
fn figures(measured: &Measurement) -> [String; 3] {
    [
        format!("{:.1}", measured.per_operation(measured.median)),
        format!("{:.1}", measured.per_operation(measured.fastest)),
        format!("{:.0}", measured.megabytes(measured.median)),
    ]
}

/// Runs the plug-in once in Envoy, on its otherwise idle main thread, and reads its log.
async fn measure_in_envoy(wasm: PathBuf) -> Result<Vec<Measurement>> {
    let run_dir = tempfile::tempdir()?;
    let mut options = EnvoyOptions::new(run_dir.path()).cluster("es", []).edit(move |config| {
        config["bootstrap_extensions"] = json!([service(&wasm.display().to_string())]);
        Ok(())
    });
    options.filter = FilterConfig::Removed;
    let envoy = Envoy::start(&Tools::find()?, options).await?;
    let all = wait::until(LIMIT, "Envoy has measured everything", async || {
        let found: Vec<Measurement> = envoy.log().lines().filter_map(Measurement::find).collect();
        Ok((found.len() == Measurement::count()).then_some(found))
    })
    .await?;
    envoy.stop().await?;
    Ok(all)
}

fn service(wasm: &str) -> Value {
    json!({
        "name": "envoy.bootstrap.wasm",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.wasm.v3.WasmService",
            "singleton": true,
            "config": {
                "name": "routines",
                "root_id": "routines",
                "vm_config": {
                    "vm_id": "routines",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": wasm}},
                },
            },
        },
    })
}
