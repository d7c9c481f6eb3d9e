//! The machine of a run.

use anyhow::{Context, Result};
use procfs::{CpuInfo, Current, Meminfo};
use serde::Serialize;

/// The properties of a machine that affect its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    cores: usize,
    model: String,
    gibibytes: u64,
}

impl Machine {
    /// Returns the properties of this machine.
    pub fn current() -> Result<Self> {
        let processors = CpuInfo::current()?;
        let model = processors.model_name(0).context("the kernel does not report the processor's model")?;
        let memory = Meminfo::current()?.mem_total;
        Ok(Self {
            cores: processors.num_cores(),
            model: model.split_whitespace().collect::<Vec<_>>().join(" "),
            // The kernel reserves some memory, so that 24 GiB appear as 23.5.
            gibibytes: (memory as f64 / f64::from(1 << 30)).ceil() as u64,
        })
    }

    /// Returns a readable description.
    pub fn title(&self) -> String {
        let Self { cores, model, gibibytes } = self;
        format!("{cores} cores ({model}), {gibibytes} GiB")
    }

    /// Returns a description for a folder name: `2-amd-epyc-24gib`.
    pub fn folder_name(&self) -> String {
        let Self { cores, model, gibibytes } = self;
        let words = format!("{cores} {model} {gibibytes}gib").to_lowercase();
        let words = words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_cores_model_and_memory() {
        let machine = Machine { cores: 8, model: "Intel(R) Xeon(R) CPU @ 2.20GHz".into(), gibibytes: 32 };
        assert_eq!(machine.folder_name(), "8-intel-r-xeon-r-cpu-2-20ghz-32gib");
        assert_eq!(machine.title(), "8 cores (Intel(R) Xeon(R) CPU @ 2.20GHz), 32 GiB");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!Machine::current().unwrap().folder_name().is_empty());
    }
}
