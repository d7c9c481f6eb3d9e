//! The steps of a run: start, warm up, measure round after round, report.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;

use crate::charts;
use crate::client::Client;
use crate::conditions::Conditions;
use crate::documents::Documents;
use crate::load::{self, Limits, Outcome};
use crate::measurement::Measurement;
use crate::options::Options;
use crate::report;
use crate::requests::Requests;
use crate::results::Results;
use crate::site::Site;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::Workload;

/// The maximum number of searches in flight.
const SEARCH_CLIENTS: usize = 16;

pub async fn run(options: &Options) -> Result<ExitCode> {
    let tools = Tools::find()?;
    let mut bench = Bench::start(&tools, options.clone()).await?;
    let mut results = Results::create(options, &bench.conditions, "")?;
    bench.warm_up().await?;
    let mut measurements = Vec::new();
    for workload in &options.workloads {
        for measured in bench.measure(*workload).await? {
            results.add(&measured)?;
            measurements.push(measured);
        }
    }
    let Bench { site, conditions, .. } = bench;
    site.stop().await?;
    let summary = Summary(&measurements);
    let charts = charts::write(results.folder(), options, summary)?;
    results.write_report(&report::whole(options, &conditions, &charts, summary)?)?;
    println!("{}\n\n{}\n", report::overview(options, summary), report::goals(options, summary));
    println!("report, charts and raw numbers: {}", results.folder().display());
    Ok(exit_code(options, &measurements))
}

/// Returns success if all requests succeeded that had to.
pub fn exit_code(options: &Options, measurements: &[Measurement]) -> ExitCode {
    let failed = options.write_queue.is_none() && measurements.iter().any(|measurement| measurement.failed > 0);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The running processes, and the next measurement.
pub struct Bench {
    pub options: Options,
    pub conditions: Conditions,
    pub site: Site,
}

impl Bench {
    /// Starts what the targets need.
    pub async fn start(tools: &Tools, options: Options) -> Result<Self> {
        eprintln!("starting three nodes, Envoy, and Envoy with the filter");
        let site = Site::start(tools, &options).await?;
        let conditions = Conditions::read(&site, &options, &tools.root).await?;
        Ok(Self { options, conditions, site })
    }

    /// Generates the requests of a workload.
    fn requests(&self, workload: Workload, limits: Limits) -> Result<Requests> {
        let documents = Documents::new(self.options.shape.documents, self.options.ids);
        Requests::make(workload, documents, (self.options.api, self.options.callers), limits.duration)
    }

    /// Sends every workload to every target in turn until enough documents are written. Each has the same share of
    /// them, but slow ones stop after the time of one measurement.
    pub async fn warm_up(&mut self) -> Result<()> {
        let Options { workloads, targets, warmup, .. } = self.options.clone();
        let parts = workloads.len() * targets.len();
        let limits = Limits { duration: self.options.duration(), documents: warmup / parts as u64, rate: None };
        let mut written = 0;
        while written < warmup {
            for workload in &workloads {
                let mut requests = Rc::new(self.requests(*workload, limits)?);
                let measured = self.round(*workload, 0, &mut requests, limits).await?;
                written += measured.iter().map(|measured| measured.documents).sum::<u64>();
                eprintln!("warm-up: {written} of {warmup} documents");
            }
        }
        Ok(())
    }

    /// Measures a workload at every target, round after round.
    pub async fn measure(&mut self, workload: Workload) -> Result<Vec<Measurement>> {
        let limits = Limits { duration: self.options.duration(), documents: u64::MAX, rate: workload.rate };
        let mut requests = Rc::new(self.requests(workload, limits)?);
        let mut measurements = Vec::new();
        for round in 1..=self.options.rounds {
            for measured in self.round(workload, round, &mut requests, limits).await? {
                eprintln!("{measured}");
                measurements.push(measured);
            }
        }
        Ok(measurements)
    }

    /// Sends the searches of the options, if any, to the nodes.
    async fn search(&self, index: usize, duration: Duration) -> Result<Option<Outcome>> {
        let Some(rate) = self.options.searches else { return Ok(None) };
        let mut requests = Requests::searches(rate, duration);
        requests.set_index(index)?;
        let clients = Client::connect_all(&self.site.addresses(Target::Direct), SEARCH_CLIENTS).await?;
        let limits = Limits { duration, documents: u64::MAX, rate: Some(rate) };
        Ok(Some(load::send(&Rc::new(requests), clients, limits).await?.0))
    }

    /// Sends a workload to every target in sequence, each into its own index.
    async fn round(
        &mut self,
        workload: Workload,
        round: usize,
        requests: &mut Rc<Requests>,
        limits: Limits,
    ) -> Result<Vec<Measurement>> {
        let targets = self.options.targets.clone();
        let indices = self.site.create_indices(targets.len(), &self.options.shape).await?;
        let mut measurements = Vec::with_capacity(targets.len());
        for (target, index) in targets.iter().zip(indices) {
            Rc::get_mut(requests).context("a client is still sending")?.set_index(index.number)?;
            let clients = Client::connect_all(&self.site.addresses(*target), workload.clients).await?;
            self.site.wait_quiet().await?;
            let before = self.site.read_before(*target).await?;
            let ((outcome, clients), searches) =
                tokio::try_join!(load::send(requests, clients, limits), self.search(index.number, limits.duration))?;
            let after = self.site.read_after(*target).await?;
            drop(clients);
            let measured = Measurement::new((workload, round, *target), &outcome, searches.as_ref(), [&before, &after]);
            let problems = searches.as_ref().and_then(|searches| searches.problem.as_ref());
            if let Some(problem) = outcome.problem.as_ref().or(problems) {
                eprintln!("{} of {} requests failed; the first:\n{problem}", measured.failed, measured.requests);
            }
            self.site.finish(index, (measured.failed == 0).then_some(measured.documents)).await?;
            measurements.push(measured);
        }
        Ok(measurements)
    }
}
