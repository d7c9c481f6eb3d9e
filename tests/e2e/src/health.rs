use anyhow::{Result, bail, ensure};
use bulk_reshuffle_stack::Envoy;

/// The words that Envoy logs when the filter's VM fails or the filter reports an error of its own.
const FAULTS: &[&str] = &["[critical]", "[error]", "panicked", "Function: proxy_", "Uncaught"];

/// Returns an error if a VM of the filter has died in this Envoy, or if the filter has reported an error of its own.
pub async fn check_filter(envoy: &Envoy) -> Result<()> {
    for (name, count) in envoy.stats_with("vm_reload").await? {
        ensure!(count == 0, "{name} is {count}: {}", envoy.process().log_extract());
    }
    let log = envoy.log();
    match log.lines().find(|line| FAULTS.iter().any(|fault| line.contains(fault))) {
        Some(line) => bail!("Envoy logged: {line}"),
        None => Ok(()),
    }
}
