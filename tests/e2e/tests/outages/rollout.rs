use std::path::{Path, PathBuf};

use anyhow::Result;
use bulk_reshuffle_e2e::{ShippedFiles, lines, replace_in_file};
use bulk_reshuffle_stack::{Client, Envoy, port, wait};

use crate::LIMIT;
use crate::stage::Stage;
use crate::way::Way;

/// The module in the shipped files.
const SHIPPED: &str = "dist/bulk_reshuffle.wasm";

/// The Envoy of `envoy/rollout.yaml`, which has the filter in a file of its own.
pub struct Rollout {
    pub envoy: Envoy,
    /// The file with the filter.
    part: PathBuf,
    module: PathBuf,
    /// The port without the filter.
    plain: u16,
}

impl Rollout {
    /// The index for single requests.
    pub const WRITTEN: &str = "module-written";

    /// Starts it with this module.
    pub async fn start(stage: &Stage, module: &Path) -> Result<Self> {
        let (folder, plain) = (tempfile::tempdir_in(&stage.folder)?.keep(), port::free()?);
        let mut files = ShippedFiles::new(&folder)?.port(9210, plain).replace(SHIPPED, module.display().to_string());
        for (shipped, (_, node)) in (9201..).zip(stage.cluster.addresses()) {
            let at = |ip: &str, port: u16| format!("address: {ip}, port_value: {port}}}");
            files = files.replace(at("127.0.0.1", shipped), at(&node.ip().to_string(), node.port()));
        }
        let envoy = files.start("rollout.yaml").await?;
        let (part, module) = (folder.join("envoy/parts/filter.yaml"), module.to_path_buf());
        Ok(Self { envoy, part, module, plain })
    }

    /// Writes another module into the file, and waits until Envoy has adopted or rejected it.
    pub async fn set_module(&mut self, module: &Path, counter: &str) -> Result<()> {
        let before = self.envoy.counter(counter).await?;
        let [from, to] = [self.module.as_path(), module].map(|path| path.display().to_string());
        replace_in_file(&self.part, &from, &to)?;
        self.module = module.to_path_buf();
        self.wait_counted(counter, before).await
    }

    /// Waits until a counter is above this value.
    pub async fn wait_counted(&self, counter: &str, before: u64) -> Result<()> {
        let is_counted = async || Ok((self.envoy.counter(counter).await? > before).then_some(()));
        wait::until(LIMIT, &format!("{counter} increases"), is_counted).await
    }

    /// Returns the ways through both ports.
    pub fn ways(&self) -> [Way; 2] {
        let plain = format!("http://{}", port::loopback(self.plain));
        [
            Way {
                name: "a cluster for each node",
                short: "filtered",
                servers: vec![self.envoy.url("")],
                has_filter: true,
            },
            Way { name: "without the filter", short: "plain", servers: vec![plain], has_filter: false },
        ]
    }

    /// Writes a document through both ports, and returns the statuses: with the filter, without it.
    pub async fn statuses(&self) -> Result<[u16; 2]> {
        let [filtered, plain] = self.ways().map(|way| format!("{}/_bulk", way.servers.concat()));
        let write = async |url: &str| -> Result<u16> {
            let answer = Client::new().post_ndjson(url, lines::index(Self::WRITTEN, "1", 1)).await?;
            Ok(answer.status.as_u16())
        };
        Ok([write(&filtered).await?, write(&plain).await?])
    }
}
