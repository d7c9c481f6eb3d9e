//! syslog-ng with its own destination for Elasticsearch.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::UnpackedProgram;

use super::{ENTRIES, Place, Program, entry};
use crate::RELEASES;
use crate::target::Target;
use crate::writer::{Run, Writer};

pub fn writers() -> Vec<Writer> {
    vec![Writer {
        name: "syslog-ng 3.38",
        configuration: "default: `elasticsearch-http()`",
        on: &RELEASES,
        targets: vec![Target::index("syslog-ng")],
        run: Run::Program(Program::SyslogNg),
        documents: ENTRIES,
        has_ids: false,
        // The times at which syslog-ng reads the line.
        volatile: &["/@timestamp", "/ISODATE"],
    }]
}

pub async fn run(place: &Place<'_>) -> Result<()> {
    let entries = place.write_entries("app.log", |n| entry(n).to_string())?;
    let syslog_ng = UnpackedProgram::find(&place.tools, "syslog-ng", "usr/sbin/syslog-ng", "syslog-ng/3.38")?;
    let include = syslog_ng.root().join("usr/share/syslog-ng/include");
    let include = include.to_str().context("the folder's name is not text")?;
    let config = place.write(
        "syslog-ng.conf",
        &format!(
            "@version: 3.38\n@define include-path \"{include}\"\n@define scl-root \"{include}/scl\"\n\
             @include \"scl/elasticsearch/elastic-http.conf\"\n\
             source entries {{ file(\"{entries}\" flags(no-parse) follow-freq(0.1)); }};\n\
             destination cluster {{ elasticsearch-http(url(\"{}/_bulk\") index(\"syslog-ng\") type(\"\")); }};\n\
             log {{ source(entries); destination(cluster); flags(flow-control); }};\n",
            place.url
        ),
    )?;
    let mut command = syslog_ng.command();
    command.args(["-F", "-e", "--no-caps", "-f", &config, "--module-path"]).arg(syslog_ng.modules());
    for (option, file) in [("-R", "state"), ("-c", "control"), ("-p", "pid")] {
        command.arg(option).arg(place.folder().join(file));
    }
    place.run_until_written("syslog-ng", command).await
}
