//! The charts of a run: for each workload a group of marks, each a point with a line for what it reaches.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::goal::{Bound, GOALS};
use crate::metric::Metric;
use crate::options::Options;
use crate::report::number;
use crate::summary::Summary;
use crate::target::Target;

const SIZE: (u32, u32) = (880, 380);
const FONT: &str = "sans-serif";
const TEXT: i32 = 13;

/// From one workload to the next is 1; so far apart are the marks of one workload.
const STEP: f64 = 0.22;

/// What belongs together, in one colour.
struct Series {
    title: String,
    color: RGBColor,
    marks: Vec<Mark>,
}

/// A point, and how far its line reaches.
struct Mark {
    /// The workload's place.
    place: usize,
    low: f64,
    point: f64,
    high: f64,
}

/// The filter's docs/s divided by the other targets', with the spread, and what is wanted.
pub fn throughput(path: &Path, options: &Options, summary: Summary) -> Result<()> {
    let others = options.targets.iter().filter(|target| **target != Target::Filter);
    let series = others.map(|other| {
        let mark = |(place, workload)| {
            let ratios = summary.ratios(workload, Metric::Throughput, *other)?;
            Some(Mark { place, low: ratios.min, point: ratios.median, high: ratios.max })
        };
        let marks = options.workloads.iter().copied().enumerate().filter_map(mark).collect();
        Series { title: format!("filter ÷ {}", other.title()), color: color(*other), marks }
    });
    let wanted = options.workloads.iter().enumerate().filter_map(|(place, workload)| {
        let is_wanted = |goal: &&crate::goal::Goal| {
            goal.workload == *workload && goal.metric == Metric::Throughput && goal.other == Target::Direct
        };
        match GOALS.iter().find(is_wanted)?.bound {
            Bound::RatioAtLeast(bound) => Some((place, bound)),
            _ => None,
        }
    });
    let chart = Chart {
        title: "docs/s: median of the rounds' ratios, smallest to largest",
        options,
        series: series.collect(),
        wanted: wanted.collect(),
    };
    chart.draw(path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

/// Each target's median latency, with a line up to the 99th percentile.
pub fn latency(path: &Path, options: &Options, summary: Summary) -> Result<()> {
    let series = options.targets.iter().map(|target| {
        let mark = |(place, workload)| {
            let p50 = summary.values(workload, *target, Metric::P50)?.median;
            let p99 = summary.values(workload, *target, Metric::P99)?.median;
            Some(Mark { place, low: p50, point: p50, high: p99 })
        };
        let marks = options.workloads.iter().copied().enumerate().filter_map(mark).collect();
        Series { title: target.title().to_owned(), color: color(*target), marks }
    });
    let chart = Chart {
        title: "latency in ms: p50, and a line up to p99",
        options,
        series: series.collect(),
        wanted: Vec::new(),
    };
    chart.draw(path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn color(target: Target) -> RGBColor {
    match target {
        Target::Direct => RGBColor(31, 119, 180),
        Target::Plain => RGBColor(230, 126, 34),
        Target::Filter => RGBColor(39, 145, 80),
    }
}

struct Chart<'a> {
    title: &'a str,
    options: &'a Options,
    series: Vec<Series>,
    /// Workloads' places, and the values that they should reach.
    wanted: Vec<(usize, f64)>,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Chart<'_> {
    fn draw(&self, path: &Path) -> Drawn {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        self.draw_on(&root)?;
        Ok(root.present()?)
    }

    fn draw_on(&self, root: &DrawingArea<SVGBackend, Shift>) -> Drawn {
        let Some((low, high)) = self.range() else { return Ok(()) };
        let workloads = &self.options.workloads;
        let mut chart = ChartBuilder::on(root)
            .caption(self.title, (FONT, TEXT + 2))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(-0.5..workloads.len() as f64 - 0.5, (low..high).log_scale())?;
        let name = |x: &f64| workloads.get(x.round() as usize).map(ToString::to_string).unwrap_or_default();
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(workloads.len())
            .x_label_formatter(&name)
            .y_label_formatter(&|y| number(*y))
            .x_desc("documents per request × clients")
            .label_style((FONT, TEXT))
            .draw()?;
        for (place, bound) in &self.wanted {
            let place = *place as f64;
            let line = PathElement::new([(place - 0.4, *bound), (place + 0.4, *bound)], BLACK.stroke_width(1));
            chart.draw_series([line])?;
        }
        let middle = (self.series.len() as f64 - 1.0) / 2.0;
        for (number_of_series, series) in self.series.iter().enumerate() {
            let offset = (number_of_series as f64 - middle) * STEP;
            let style = series.color.stroke_width(2);
            let line = |mark: &Mark| {
                let x = mark.place as f64 + offset;
                PathElement::new([(x, mark.low), (x, mark.high)], style)
            };
            chart.draw_series(series.marks.iter().map(line))?;
            let point = |mark: &Mark| {
                let x = mark.place as f64 + offset;
                EmptyElement::at((x, mark.point))
                    + Circle::new((0, 0), 4, series.color.filled())
                    + Text::new(number(mark.point), (7, -6), (FONT, TEXT - 2).into_font().color(&series.color))
            };
            let legend = series.color;
            chart
                .draw_series(series.marks.iter().map(point))?
                .label(&series.title)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, legend.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font((FONT, TEXT))
            .background_style(WHITE)
            .draw()?;
        Ok(())
    }

    /// All values, with room around them.
    fn range(&self) -> Option<(f64, f64)> {
        let marks = self.series.iter().flat_map(|series| &series.marks);
        let values = marks.flat_map(|mark| [mark.low, mark.high]).chain(self.wanted.iter().map(|(_, bound)| *bound));
        let (low, high) = values.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })?;
        Some((low * 0.8, high * 1.5))
    }
}
