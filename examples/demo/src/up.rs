//! `up` and `down`: start the same cluster and Envoy and leave them running, and stop them.

use std::process::ExitCode;

use anyhow::Result;
use bulk_reshuffle_stack::{Distribution, Lifetime, ProcessRecord, Tools, stop_left_running};

use crate::progress::Step;
use crate::site::{ADMIN, LISTENER, NODES, PAGE, Site, run_dir};

const RUN_DIR: &str = "up";
const INDEX: &str = "books";

/// Starts the cluster and Envoy, and leaves them running.
pub async fn up(distribution: Distribution) -> Result<ExitCode> {
    let tools = Tools::find()?;
    let run_dir = run_dir(&tools, RUN_DIR);
    let site = Site::start(&tools, &run_dir, distribution, Lifetime::Independent, &[INDEX]).await?;
    let step = Step::start("the filter has loaded the cluster's state");
    site.wait_for_state().await?;
    step.finish();
    site.envoy.leave_running();
    site.cluster.leave_running();
    println!("{}", addresses());
    Ok(ExitCode::SUCCESS)
}

/// Stops the processes that `up` started.
pub async fn down() -> Result<ExitCode> {
    let tools = Tools::find()?;
    let stopped = stop_left_running(&run_dir(&tools, RUN_DIR)).await?;
    let mut names: Vec<_> = stopped.iter().map(|process| process.name.as_str()).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => println!("nothing was running"),
        names => println!("stopped {}", names.join(", ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports whether any process that `up` started still runs.
pub fn is_running(tools: &Tools) -> bool {
    ProcessRecord::read_all(&run_dir(tools, RUN_DIR))
        .is_ok_and(|processes| processes.iter().any(ProcessRecord::is_running))
}

fn addresses() -> String {
    let nodes: Vec<String> = NODES.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!(
        r#"
  Envoy with the filter   http://127.0.0.1:{LISTENER}
  nodes                   {nodes}
  filter status           http://127.0.0.1:{LISTENER}{PAGE}/
  filter counters         http://127.0.0.1:{ADMIN}/stats?filter=bulk_reshuffle
  configuration and logs  .run/{RUN_DIR}

Try:

  printf '%s\n' '{{"index":{{"_id":"1"}}}}' '{{"title":"Moby-Dick"}}' '{{"index":{{"_id":"2"}}}}' '{{"title":"Emma"}}' |
    curl -s -H 'content-type: application/x-ndjson' --data-binary @- '127.0.0.1:{LISTENER}/{INDEX}/_bulk?pretty'

Stop it with `make down`."#,
        nodes = nodes.join(", ")
    )
}
