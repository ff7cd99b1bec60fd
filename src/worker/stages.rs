//! The recent work of the stages of a task's pipeline, from the totals since its start.

use std::time::Duration;

use millstream_control::{STAGES_MAX, StagePace};
use millstream_pipeline::exec::{StageStats, Stats};

/// The converter of a pipeline's totals to its recent work.
#[derive(Debug, Default)]
pub(super) struct StageGauge {
    /// The totals of the previous record.
    earlier: Option<(Duration, Vec<StageStats>)>,
    latest: Vec<StagePace>,
}

impl StageGauge {
    /// Records the totals. The work since the previous record becomes the recent work.
    pub(super) fn note(&mut self, stats: &Stats) {
        let stages = &stats.stages[..stats.stages.len().min(STAGES_MAX)];
        if let Some((at, earlier)) = &self.earlier {
            let passed = stats.elapsed.saturating_sub(*at);
            let pairs = stages.iter().zip(earlier);
            self.latest = pairs
                .map(|(stage, earlier)| recent(stage, earlier, passed))
                .collect();
        }
        self.earlier = Some((stats.elapsed, stages.to_vec()));
    }

    /// Takes the recent work of each stage, with the output first. Empty before the second record, and until
    /// the next record. A task that waits for its readers records nothing, and does not repeat earlier work.
    pub(super) fn take(&mut self) -> Vec<StagePace> {
        std::mem::take(&mut self.latest)
    }
}

fn recent(stage: &StageStats, earlier: &StageStats, passed: Duration) -> StagePace {
    let permille = |time: Duration, earlier: Duration| {
        let share = time.saturating_sub(earlier).as_secs_f64() / passed.as_secs_f64().max(f64::MIN_POSITIVE);
        (share * 1e3).round() as u32
    };
    let elements = stage.elements.saturating_sub(earlier.elements) as f64;
    let per_s = elements / passed.as_secs_f64().max(f64::MIN_POSITIVE);
    StagePace {
        label: stage.label.clone(),
        depth: u32::try_from(stage.path.len().saturating_sub(1)).unwrap_or(u32::MAX),
        elements_per_1000_s: (per_s * 1e3).round() as u64,
        busy_permille: permille(stage.busy, earlier.busy),
        waited_permille: permille(stage.waited, earlier.waited),
        threads: stage.threads,
    }
}

#[cfg(test)]
mod tests {
    use millstream_pipeline::exec::Bottleneck;

    use super::*;

    fn stats(seconds: u64, elements: u64, busy_ms: u64) -> Stats {
        Stats {
            elapsed: Duration::from_secs(seconds),
            pulled: Duration::ZERO,
            written: Duration::ZERO,
            stages: vec![StageStats {
                path: vec![3, 1],
                label: "map(decode)".to_owned(),
                function: Some("decode".to_owned()),
                elements,
                busy: Duration::from_millis(busy_ms),
                waited: Duration::from_millis(busy_ms / 10),
                threads: 4,
                ready_share: None,
                ready_max: 0,
                load: 0.0,
            }],
            bottleneck: Bottleneck::Unknown,
        }
    }

    /// C11.6
    #[test]
    fn recent_work_excludes_earlier_work() {
        let mut gauge = StageGauge::default();
        gauge.note(&stats(10, 1000, 100));
        assert_eq!(gauge.take(), []);
        gauge.note(&stats(12, 1300, 5100));
        let expected = StagePace {
            label: "map(decode)".to_owned(),
            depth: 1,
            elements_per_1000_s: 150_000,
            busy_permille: 2500,
            waited_permille: 250,
            threads: 4,
        };
        assert_eq!(gauge.take(), [expected]);
        assert_eq!(gauge.take(), [], "the work is reported once");
    }
}
