//! The charts of a run: for each workload a group of marks, each a point with a line for its range.

use std::path::Path;

use anyhow::{Result, anyhow};
use bulk_reshuffle_bench::tables::{Spread, number};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::goal::{Bound, Goal, goals};
use crate::metric::Metric;
use crate::options::Options;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::{self, Workload};

/// The chart of the filter's docs/s divided by the other targets'.
const RATIOS: &str = "throughput.svg";
/// The chart of each target's latency.
const LATENCY: &str = "latency.svg";
/// The charts of one quantity for each target.
const VALUES: [(&str, Metric); 5] = [
    ("cluster-cpu.svg", Metric::ClusterCpu),
    ("envoy-cpu.svg", Metric::EnvoyCpu),
    ("bytes-between-nodes.svg", Metric::BytesBetweenNodes),
    ("disk-syncs.svg", Metric::DiskSyncs),
    ("requests-per-batch.svg", Metric::RequestsPerBatch),
];

/// Writes all charts. Returns the names of the files.
pub fn write(folder: &Path, options: &Options, summary: Summary) -> Result<Vec<&'static str>> {
    let mut written = Vec::new();
    let charts = [(RATIOS, ratios(options, summary)), (LATENCY, latency(options, summary))];
    let values = VALUES.map(|(name, metric)| (name, values(options, summary, metric)));
    for (name, chart) in charts.into_iter().chain(values) {
        if chart.series.iter().any(|series| !series.marks.is_empty()) {
            chart.write(&folder.join(name))?;
            written.push(name);
        }
    }
    Ok(written)
}

fn ratios<'a>(options: &'a Options, summary: Summary) -> Chart<'a> {
    let others = options.targets.iter().copied().filter(|target| *target != Target::Filter);
    let series = others.map(|other| {
        let marks = marks(options, |workload| summary.ratios(workload, Metric::Throughput, other));
        Series { title: format!("filter ÷ {}", other.title()), color: color(other), marks }
    });
    Chart {
        title: "docs/s: the filter's divided by others', medians and extremes of the rounds".to_owned(),
        workloads: &options.workloads,
        series: series.collect(),
        wanted: wanted(options),
    }
}

fn latency<'a>(options: &'a Options, summary: Summary) -> Chart<'a> {
    let series = options.targets.iter().map(|target| {
        let marks = marks(options, |workload| {
            let p50 = summary.values(workload, *target, Metric::P50)?.median;
            let p99 = summary.values(workload, *target, Metric::P99)?.median;
            Some(Spread { min: p50, median: p50, max: p99 })
        });
        Series { title: target.title().to_owned(), color: color(*target), marks }
    });
    Chart {
        title: "latency in ms: p50, and a line up to p99".to_owned(),
        workloads: &options.workloads,
        series: series.collect(),
        wanted: Vec::new(),
    }
}

fn values<'a>(options: &'a Options, summary: Summary, metric: Metric) -> Chart<'a> {
    let series = options.targets.iter().map(|target| {
        let marks = marks(options, |workload| summary.values(workload, *target, metric));
        Series { title: target.title().to_owned(), color: color(*target), marks }
    });
    let series = series.filter(|series| !series.marks.is_empty()).collect();
    Chart { title: metric.title(), workloads: &options.workloads, series, wanted: Vec::new() }
}

fn marks(options: &Options, spread: impl Fn(Workload) -> Option<Spread>) -> Vec<Mark> {
    let mark = |(place, workload): (usize, &Workload)| {
        let Spread { min, median, max } = spread(*workload)?;
        // A value of 0 cannot be shown on the scale.
        (min > 0.0).then_some(Mark { place, low: min, point: median, high: max })
    };
    options.workloads.iter().enumerate().filter_map(mark).collect()
}

fn wanted(options: &Options) -> Vec<(usize, f64)> {
    let goals = goals(options);
    let of_workload = |(place, workload): (usize, &Workload)| {
        let is_it = |goal: &&Goal| {
            goal.workload == *workload && goal.metric == Metric::Throughput && goal.other == Target::Direct
        };
        match goals.iter().find(is_it)?.bound {
            Bound::RatioAtLeast(bound) => Some((place, bound)),
            _ => None,
        }
    };
    options.workloads.iter().enumerate().filter_map(of_workload).collect()
}

fn color(target: Target) -> RGBColor {
    match target {
        Target::Direct => RGBColor(31, 119, 180),
        Target::Plain => RGBColor(230, 126, 34),
        Target::Base => RGBColor(142, 68, 173),
        Target::Filter => RGBColor(39, 145, 80),
    }
}

const SIZE: (u32, u32) = (880, 380);
const FONT: &str = "sans-serif";
const TEXT: i32 = 13;

/// The width of one workload's marks, as a fraction of the distance between workloads.
const GROUP: f64 = 0.66;
/// The width of the line for a wanted value: a little more than the marks.
const WANTED: f64 = 0.8;

/// The distance of a printed value from its line, in pixels.
const DISTANCE: i32 = 5;

/// The width of the legend, as a fraction of the workloads' width.
const LEGEND: f64 = 0.25;

/// A chart with a logarithmic scale.
pub struct Chart<'a> {
    /// The title above the chart.
    pub title: String,
    /// The workloads, from left to right.
    pub workloads: &'a [Workload],
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// The wanted values of the first series, each with the position of its workload.
    pub wanted: Vec<(usize, f64)>,
}

/// Marks of one colour.
pub struct Series {
    /// The title in the legend.
    pub title: String,
    /// The colour of the marks.
    pub color: RGBColor,
    /// The marks, at most one for each workload.
    pub marks: Vec<Mark>,
}

/// A point, and the range of its line. All values are above 0.
pub struct Mark {
    /// The workload's position.
    pub place: usize,
    /// The start of the line.
    pub low: f64,
    /// The value that is printed above or below the line.
    pub point: f64,
    /// The end of the line.
    pub high: f64,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Chart<'_> {
    /// Writes the chart as SVG. Writes nothing if it is empty.
    pub fn write(&self, path: &Path) -> Result<()> {
        let Some(range) = self.range() else { return Ok(()) };
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        self.draw(&root, range).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
    }

    fn draw(&self, root: &DrawingArea<SVGBackend, Shift>, (low, high): (f64, f64)) -> Drawn {
        root.fill(&WHITE)?;
        let count = self.workloads.len();
        let left = -0.5;
        let right = left + count as f64 * (1.0 + LEGEND);
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, (FONT, TEXT + 2))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(left..right, (low..high).log_scale())?;
        let name = |x: &f64| self.name(*x);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(count + 2)
            .x_label_formatter(&name)
            .y_label_formatter(&|y| number(*y))
            .x_desc(workload::TITLE)
            .label_style((FONT, TEXT))
            .draw()?;
        if !self.wanted.is_empty() {
            let line = |(place, value): &(usize, f64)| {
                let middle = *place as f64;
                PathElement::new([(middle - WANTED / 2.0, *value), (middle + WANTED / 2.0, *value)], BLACK)
            };
            chart
                .draw_series(self.wanted.iter().map(line))?
                .label("wanted")
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK));
        }
        for (place, series) in self.series.iter().enumerate() {
            let color = series.color;
            let line = |mark: &Mark| {
                let x = self.x(mark, place);
                PathElement::new([(x, mark.low), (x, mark.high)], color.stroke_width(2))
            };
            chart.draw_series(series.marks.iter().map(line))?;
            // Those of neighbours are on other sides: each is wider than the distance between two points.
            let is_above = place.is_multiple_of(2);
            let (side, away) = if is_above { (VPos::Bottom, -DISTANCE) } else { (VPos::Top, DISTANCE) };
            let text = (FONT, TEXT - 2).into_font().color(&color).pos(Pos::new(HPos::Center, side));
            let value = |mark: &Mark| {
                let end = if is_above { mark.high } else { mark.low };
                EmptyElement::at((self.x(mark, place), end)) + Text::new(number(mark.point), (0, away), text.clone())
            };
            chart.draw_series(series.marks.iter().map(value))?;
            let point = |mark: &Mark| Circle::new((self.x(mark, place), mark.point), 4, color.filled());
            chart
                .draw_series(series.marks.iter().map(point))?
                .label(&series.title)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperRight).label_font((FONT, TEXT)).background_style(WHITE);
        legend.draw()?;
        Ok(root.present()?)
    }

    /// Returns the name of the workload at a horizontal position, or nothing between two.
    fn name(&self, x: f64) -> String {
        let found = self.workloads.iter().enumerate().find(|(place, _)| (*place as f64 - x).abs() < 0.01);
        found.map(|(_, workload)| workload.to_string()).unwrap_or_default()
    }

    /// Returns the horizontal position of a mark of the series with this number.
    fn x(&self, mark: &Mark, series: usize) -> f64 {
        let step = GROUP / self.series.len() as f64;
        let first = (step - GROUP) / 2.0;
        mark.place as f64 + first + step * series as f64
    }

    /// Returns the range of all values, with a margin.
    fn range(&self) -> Option<(f64, f64)> {
        let marks = self.series.iter().flat_map(|series| &series.marks);
        let values = marks.flat_map(|mark| [mark.low, mark.high]).chain(self.wanted.iter().map(|(_, value)| *value));
        let (low, high) = values.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })?;
        Some((low * 0.6, high * 1.6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(workloads: &[Workload]) -> Chart<'_> {
        let marks = vec![Mark { place: 0, low: 1.0, point: 2.0, high: 12_345.0 }];
        Chart {
            title: "a title".to_owned(),
            workloads,
            series: vec![Series { title: "a series".into(), color: BLUE, marks }],
            wanted: vec![(0, 3.0)],
        }
    }

    #[test]
    fn a_chart_names_its_workloads_and_series_and_writes_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.svg");
        let workloads = [1, 10, 100, 1_000, 10_000].map(|documents| Workload::of_clients(documents, 8));
        for count in 1..=workloads.len() {
            chart(&workloads[..count]).write(&path).unwrap();
            let svg = std::fs::read_to_string(&path).unwrap();
            let texts: Vec<&str> = svg.lines().map(str::trim).filter(|line| !line.starts_with('<')).collect();
            for text in ["a title", "a series", "wanted", "2.00"] {
                assert!(texts.contains(&text), "no {text} in {texts:?}");
            }
            for (place, workload) in workloads.iter().enumerate() {
                let found = texts.iter().filter(|text| **text == workload.to_string()).count();
                assert_eq!(found, usize::from(place < count), "{workload} of {count} in {texts:?}");
            }
        }
    }

    #[test]
    fn an_empty_chart_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.svg");
        Chart { title: String::new(), workloads: &[], series: Vec::new(), wanted: Vec::new() }.write(&path).unwrap();
        assert!(!path.exists());
    }
}
