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
    graph: Arc<Graph>,
    /// The running measurement, or `None` if the executor does not measure.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    watch: StageWatch,
    sampler: Sampler,
}

/// A view of a running executor's stages for other threads. The figures are computed when a viewer asks, so
/// an executor without viewers spends nothing on them.
#[derive(Debug, Clone)]
pub struct StageWatch {
    graph: Arc<Graph>,
    meter: Arc<Meter>,
    writing: Arc<Stage>,
    begun: Instant,
}

impl Measuring {
    /// Returns the measurements of an executor of `graph`.
    pub(crate) fn new(graph: &Graph, measured: bool) -> Measuring {
        let graph = Arc::new(graph.clone());
        let running = measured.then(|| Running {
            watch: StageWatch {
                meter: Arc::new(Meter::new(&graph)),
                graph: Arc::clone(&graph),
                writing: Arc::new(Stage::new(false)),
                begun: Instant::now(),
            },
            sampler: Sampler::default(),
        });
        Measuring { graph, running }
    }

    pub(crate) fn meter(&self) -> Option<Arc<Meter>> {
        self.watch().map(|watch| Arc::clone(&watch.meter))
    }

    pub(crate) fn watch(&self) -> Option<&StageWatch> {
        self.running.as_ref().map(|running| &running.watch)
    }

    /// Calls `write`, and measures its time if the call is sampled.
    #[inline]
    pub(crate) fn writing<T>(&mut self, write: impl FnOnce() -> T) -> T {
        match &mut self.running {
            None => write(),
            Some(Running { watch, sampler }) => {
                let begun = sampler.begin();
                let written = write();
                if let Some(sample) = sampler.finish(begun) {
                    watch.writing.note(sample);
                }
                written
            }
        }
    }

    pub(crate) fn stats(&self) -> Option<Stats> {
        self.watch().map(StageWatch::stats)
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

    fn is_fused(&self, path: &[usize]) -> bool {
        at(&self.graph, path).is_some_and(|(graph, node)| graph.is_fused(node))
    }
}

impl StageWatch {
    /// Returns the work of each stage since the executor was opened, and the bottleneck.
    pub fn stats(&self) -> Stats {
        let drawing = self.graph.drawing();
        let mut stages = Vec::new();
        for (path, label) in drawing.paths().zip(drawing.labels()) {
            let Some((graph, node)) = at(&self.graph, path) else {
                continue;
            };
            // Fused operations and options do not count as stages.
            let Some(stage) = self.meter.find(path).filter(|_| !graph.is_passed_over(node)) else {
                continue;
            };
            stages.push(Placed {
                path: path.to_vec(),
                label: label.to_owned(),
                function: graph.nodes()[node].op.registered_name().map(str::to_owned),
                counts: stage.counts(),
                times: self.trees(path),
            });
        }
        let written_ns = self.writing.counts().own_ns;
        Stats::new(self.begun.elapsed(), written_ns, stages)
    }

    /// Returns the number of trees that run at once for the body that contains `path`.
    fn trees(&self, path: &[usize]) -> u32 {
        let outer = (1..path.len()).filter_map(|length| self.meter.find(&path[..length]));
        let threads = outer
            .map(|stage| stage.counts())
            .map(|counts| counts.threads.max(1));
        threads.fold(1, u32::saturating_mul)
    }
}

/// Returns the node at `path` of `graph`, and the graph that contains it.
fn at<'g>(graph: &'g Graph, path: &[usize]) -> Option<(&'g Graph, usize)> {
    let (last, outer) = path.split_last()?;
    let found = outer.iter().try_fold(graph, |graph, node| {
        graph.nodes().get(*node).and_then(|node| node.op.body())
    });
    found.map(|graph| (graph, *last))
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
