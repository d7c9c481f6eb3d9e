//! rsyslog with the configuration of the examples.

use anyhow::Result;
use bulk_reshuffle_e2e::UnpackedProgram;

use super::{ENTRIES, Place, Program, entry};
use crate::RELEASES;
use crate::target::Target;
use crate::writer::{Run, Writer};

pub fn writers() -> Vec<Writer> {
    vec![Writer {
        name: "rsyslog 8.2302",
        configuration: "[`rsyslog.conf`](examples/shippers/rsyslog.conf)",
        on: &RELEASES,
        targets: vec![Target::index("logs-rsyslog")],
        run: Run::Program(Program::Rsyslog),
        documents: ENTRIES,
        has_ids: true,
        volatile: &[],
    }]
}

pub async fn run(place: &Place<'_>) -> Result<()> {
    let entries = place.write_entries("app.json", |n| entry(n).to_string())?;
    let rsyslog = UnpackedProgram::find(&place.tools, "rsyslog", "usr/sbin/rsyslogd", "rsyslog")?;
    let mut command = rsyslog.command();
    command
        .args(["-n", "-f"])
        .arg(place.tools.root.join("examples/shippers/rsyslog.conf"))
        .arg("-i")
        .arg(place.folder().join("pid"))
        .arg("-M")
        .arg(rsyslog.modules())
        .env("LOG_FILES", entries)
        .env("STATE_DIRECTORY", place.folder())
        .env("ELASTICSEARCH_URL", place.url);
    place.run_until_written("rsyslogd", command).await
}
