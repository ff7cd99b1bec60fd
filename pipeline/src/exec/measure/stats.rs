//! The statistics of a running pipeline at one moment, for people, computed from counts alone.

use std::time::Duration;

use super::stage::Counts;

/// The work of a pipeline's stages since the pipeline was opened. Times are estimates from samples of the
/// calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// The time since the pipeline was opened.
    pub elapsed: Duration,
    /// The part of the elapsed time that the caller spent in the pipeline, waiting or computing.
    pub pulled: Duration,
    /// The part of `pulled` that was spent on writing elements to their destination, including deferred
    /// computations.
    pub written: Duration,
    /// The operations as they are executed, with the output first. Maps that run in one step are one stage.
    pub stages: Vec<StageStats>,
    /// The part of the pipeline that limits the rate.
    pub bottleneck: Bottleneck,
}

/// The work of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct StageStats {
    /// The place of the operation in the executed graph: the nodes whose bodies contain the operation, from
    /// the outside, and then its own node.
    pub path: Vec<usize>,
    /// The name of the operation and its parameters.
    pub label: String,
    /// The name of the registered function or source that the operation calls; `None` without one.
    pub function: Option<String>,
    /// The number of elements that the operation yielded.
    pub elements: u64,
    /// The time that the operation worked, added up over its threads.
    pub busy: Duration,
    /// The time that the caller waited for the operation's threads. The time is zero if the operation works
    /// in the thread that pulls.
    pub waited: Duration,
    /// The maximum number of threads that the operation uses.
    pub threads: u32,
    /// The part of the operation's buffer that was full on average, from 0 to 1. `None` without a buffer.
    pub ready_share: Option<f64>,
    /// The maximum number of elements in the operation's buffer, or 0 without a buffer.
    pub ready_max: u64,
    /// The share of its threads' time that the operation worked, from 0 to 1.
    pub load: f64,
}

/// The busiest part of a pipeline, including its consumer, which limits the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// No element has been measured yet.
    Unknown,
    /// The caller that pulls elements limits the rate.
    Consumer,
    /// Writing elements to their destination limits the rate.
    Writing,
    /// The stage with this index in [`Stats::stages`] limits the rate.
    Stage(usize),
}

/// The counts of a stage with its place, before its figures are computed.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) path: Vec<usize>,
    pub(crate) label: String,
    pub(crate) function: Option<String>,
    pub(crate) counts: Counts,
    /// The number of trees of the stage's body that run at once.
    pub(crate) times: u32,
}

impl Stats {
    /// Returns the figures of `stages` after `elapsed`. The first stage is the output. `written_ns` is the
    /// time spent on writing.
    pub(crate) fn new(elapsed: Duration, written_ns: u64, stages: Vec<Placed>) -> Stats {
        let pulled_ns = stages.first().map_or(0, |root| root.counts.whole_ns);
        let written = Duration::from_nanos(written_ns).min(elapsed);
        let pulled = Duration::from_nanos(pulled_ns.saturating_add(written_ns)).min(elapsed);
        let stages: Vec<StageStats> = stages
            .into_iter()
            .map(|placed| StageStats::new(placed, elapsed))
            .collect();
        let bottleneck = bottleneck(elapsed, pulled, written, &stages);
        Stats {
            elapsed,
            pulled,
            written,
            stages,
            bottleneck,
        }
    }

    /// Returns the index of the stage that is the bottleneck, if a stage is the bottleneck.
    pub fn bottleneck_index(&self) -> Option<usize> {
        match self.bottleneck {
            Bottleneck::Stage(index) => Some(index),
            Bottleneck::Unknown | Bottleneck::Consumer | Bottleneck::Writing => None,
        }
    }

    /// Returns the name of the bottleneck: `consumer`, `writing`, or the stage's label.
    pub fn bottleneck_name(&self) -> &str {
        match self.bottleneck {
            Bottleneck::Unknown => "unknown",
            Bottleneck::Consumer => "consumer",
            Bottleneck::Writing => "writing",
            Bottleneck::Stage(index) => self.stages.get(index).map_or("unknown", |stage| &stage.label),
        }
    }
}

impl StageStats {
    fn new(placed: Placed, elapsed: Duration) -> StageStats {
        let Placed {
            path,
            label,
            function,
            counts,
            times,
        } = placed;
        let (busy_ns, waited_ns) = if counts.is_ahead {
            (counts.pool_ns, counts.own_ns)
        } else {
            (counts.own_ns, 0)
        };
        let threads = counts.threads.max(1).saturating_mul(times.max(1));
        let busy = Duration::from_nanos(busy_ns);
        let ready_of = counts.ready_max.saturating_mul(counts.ready_samples);
        StageStats {
            path,
            label,
            function,
            elements: counts.elements,
            busy,
            waited: Duration::from_nanos(waited_ns),
            threads,
            ready_share: (ready_of > 0).then(|| (counts.ready as f64 / ready_of as f64).min(1.0)),
            ready_max: counts.ready_max,
            load: share(busy, elapsed) / f64::from(threads),
        }
    }

    /// Returns the number of elements per second over `elapsed`.
    pub fn rate(&self, elapsed: Duration) -> f64 {
        if elapsed.is_zero() {
            0.0
        } else {
            self.elements as f64 / elapsed.as_secs_f64()
        }
    }
}

/// Returns the busiest part. If one thread does all the work, the loads add up to 1, and the largest load is
/// the part to improve. If stages have threads of their own, the limiting stage is busy all the time.
fn bottleneck(elapsed: Duration, pulled: Duration, written: Duration, stages: &[StageStats]) -> Bottleneck {
    if stages.first().is_none_or(|root| root.elements == 0) {
        return Bottleneck::Unknown;
    }
    let mut busiest = (1.0 - share(pulled, elapsed), Bottleneck::Consumer);
    let mut consider = |load: f64, candidate| {
        if load > busiest.0 {
            busiest = (load, candidate);
        }
    };
    consider(share(written, elapsed), Bottleneck::Writing);
    for (index, stage) in stages.iter().enumerate() {
        consider(stage.load, Bottleneck::Stage(index));
    }
    busiest.1
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        0.0
    } else {
        part.as_secs_f64() / whole.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stage(label: &str, counts: Counts) -> Placed {
        Placed {
            path: vec![0],
            label: label.to_owned(),
            function: None,
            counts: Counts {
                elements: 1,
                ..counts
            },
            times: 1,
        }
    }

    /// Returns the counts of a stage that works in the thread that pulls.
    fn serial(label: &str, own_ns: u64, whole_ns: u64) -> Placed {
        stage(
            label,
            Counts {
                own_ns,
                whole_ns,
                ..Counts::default()
            },
        )
    }

    /// Returns the counts of a stage that has threads of its own.
    fn ahead(label: &str, waited_ns: u64, pool_ns: u64, threads: u32) -> Placed {
        stage(
            label,
            Counts {
                own_ns: waited_ns,
                whole_ns: waited_ns,
                pool_ns,
                threads,
                is_ahead: true,
                ..Counts::default()
            },
        )
    }

    #[test]
    fn the_largest_part_is_the_bottleneck() {
        let stages = vec![
            serial("batch", 100_000_000, 800_000_000),
            serial("map", 600_000_000, 700_000_000),
            serial("range", 100_000_000, 100_000_000),
        ];
        let stats = Stats::new(SECOND, 50_000_000, stages.clone());
        assert_eq!(stats.bottleneck_name(), "map");
        assert_eq!(stats.pulled, Duration::from_millis(850));
        let slow_consumer = Stats::new(10 * SECOND, 0, stages);
        assert_eq!(slow_consumer.bottleneck, Bottleneck::Consumer);
    }

    #[test]
    fn the_restless_stage_is_the_bottleneck() {
        let stages = vec![
            ahead("prefetch", 990_000_000, 0, 1),
            ahead("decode", 0, 3_900_000_000, 4),
            serial("read", 400_000_000, 400_000_000),
        ];
        let stats = Stats::new(SECOND, 0, stages);
        assert_eq!(stats.bottleneck_name(), "decode");
        assert_eq!(stats.stages[0].waited, Duration::from_millis(990));
        assert_eq!(stats.stages[0].busy, Duration::ZERO, "waiting is no work");
    }

    #[test]
    fn nothing_is_said_before_the_first_element() {
        let mut stages = vec![serial("map", 0, 0)];
        stages[0].counts.elements = 0;
        let stats = Stats::new(Duration::ZERO, 0, stages);
        assert_eq!(stats.bottleneck, Bottleneck::Unknown);
        assert_eq!(stats.stages[0].rate(Duration::ZERO), 0.0);
    }

    #[test]
    fn estimates_are_cut_to_the_elapsed_time() {
        let stats = Stats::new(SECOND, 0, vec![serial("map", 2_000_000_000, 2_000_000_000)]);
        assert_eq!(stats.pulled, SECOND);
        assert_eq!(stats.bottleneck_name(), "map");
    }
}
