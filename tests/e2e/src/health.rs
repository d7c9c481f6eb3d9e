use anyhow::{Result, bail, ensure};
use bulk_reshuffle_stack::Envoy;

/// What Envoy logs when the filter's VM fails or the filter finds fault with itself.
const FAULTS: &[&str] = &["[critical]", "[error]", "panicked", "Function: proxy_", "Uncaught"];

/// An error if a VM of the filter's has died in this Envoy, or the filter has found fault with itself.
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
