//! The measurements of an executor: its stages, the time since it was opened, and the time spent writing
//! elements.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::measure::{Meter, Placed, Sampler, Stage, StageStats, Stats};
use crate::graph::{Drawing, Graph};

/// The column titles of [`Measuring::drawing`].
const COLUMNS: [&str; 7] = [
    "elements",
    "per second",
    "busy",
    "waited",
    "load",
    "threads",
    "ready",
];

/// The measurements of an executor's stages.
#[derive(Debug)]
pub(crate) struct Measuring {
    graph: Graph,
    /// The running measurement, or `None` if the executor does not measure.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    meter: Arc<Meter>,
    begun: Instant,
    writing: Stage,
    sampler: Sampler,
}

impl Measuring {
    /// Returns the measurements of an executor of `graph`.
    pub(crate) fn new(graph: &Graph, measured: bool) -> Measuring {
        let running = measured.then(|| Running {
            meter: Arc::new(Meter::new(graph)),
            begun: Instant::now(),
            writing: Stage::new(false),
            sampler: Sampler::default(),
        });
        Measuring {
            graph: graph.clone(),
            running,
        }
    }

    pub(crate) fn meter(&self) -> Option<Arc<Meter>> {
        self.running.as_ref().map(|running| Arc::clone(&running.meter))
    }

    /// Calls `write`, and measures its time if the call is sampled.
    #[inline]
    pub(crate) fn writing<T>(&mut self, write: impl FnOnce() -> T) -> T {
        match &mut self.running {
            None => write(),
            Some(Running { writing, sampler, .. }) => {
                let begun = sampler.begin();
                let written = write();
                if let Some(sample) = sampler.finish(begun) {
                    writing.note(sample);
                }
                written
            }
        }
    }

    pub(crate) fn stats(&self) -> Option<Stats> {
        let running = self.running.as_ref()?;
        let drawing = self.graph.drawing();
        let mut stages = Vec::new();
        for (path, label) in drawing.paths().zip(drawing.labels()) {
            let Some(stage) = running.meter.find(path).filter(|_| self.is_stage(path)) else {
                continue;
            };
            stages.push(Placed {
                path: path.to_vec(),
                label: label.to_owned(),
                counts: stage.counts(),
                times: running.trees(path),
            });
        }
        let written_ns = running.writing.counts().own_ns;
        Some(Stats::new(running.begun.elapsed(), written_ns, stages))
    }

    pub(crate) fn drawing(&self) -> Drawing {
        let Some(stats) = self.stats() else {
            return self.graph.drawing();
        };
        let bottleneck = stats.bottleneck_index();
        self.graph.drawing_with(COLUMNS.to_vec(), &mut |path| match stats
            .stages
            .iter()
            .position(|stage| stage.path == path)
        {
            Some(index) => cells(&stats.stages[index], stats.elapsed, bottleneck == Some(index)),
            None if self.is_fused(path) => vec!["in the step above".to_owned()],
            None => Vec::new(),
        })
    }

    /// Returns whether the operation at `path` is a stage of its own. Fused operations and options are not
    /// stages.
    fn is_stage(&self, path: &[usize]) -> bool {
        self.at(path)
            .is_some_and(|(graph, node)| !graph.is_passed_over(node))
    }

    fn is_fused(&self, path: &[usize]) -> bool {
        self.at(path).is_some_and(|(graph, node)| graph.is_fused(node))
    }

    /// Returns the node at `path`, and the graph that contains it.
    fn at(&self, path: &[usize]) -> Option<(&Graph, usize)> {
        let (last, outer) = path.split_last()?;
        let graph = outer.iter().try_fold(&self.graph, |graph, node| {
            graph.nodes().get(*node).and_then(|node| node.op.body())
        });
        graph.map(|graph| (graph, *last))
    }
}

impl Running {
    /// Returns the number of trees that run at once for the body that contains `path`.
    fn trees(&self, path: &[usize]) -> u32 {
        let outer = (1..path.len()).filter_map(|length| self.meter.find(&path[..length]));
        let threads = outer
            .map(|stage| stage.counts())
            .map(|counts| counts.threads.max(1));
        threads.fold(1, u32::saturating_mul)
    }
}

fn cells(stage: &StageStats, elapsed: Duration, is_bottleneck: bool) -> Vec<String> {
    let ready = stage
        .ready_share
        .map(|share| format!("{:.0} % of {}", 100.0 * share, stage.ready_max));
    let mark = if is_bottleneck { " ←" } else { "" };
    vec![
        stage.elements.to_string(),
        rate(stage.rate(elapsed)),
        time(stage.busy),
        if stage.waited.is_zero() {
            String::new()
        } else {
            time(stage.waited)
        },
        format!("{:.0} %{mark}", 100.0 * stage.load),
        stage.threads.to_string(),
        ready.unwrap_or_default(),
    ]
}

/// Formats a rate with about three digits, because samples are not more precise.
fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.1}"),
    }
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}
