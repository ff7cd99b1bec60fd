//! A count between the end of the warm-up and the end of the run, with the processor time used.

use std::time::{Duration, Instant};

use crate::report::cpu_seconds;

/// The counter of a reader, from the end of the warm-up to the end of the run.
#[derive(Debug)]
pub(crate) struct Meter {
    warm_up: Duration,
    length: Duration,
    started: Instant,
    children: Vec<u32>,
    measured_from: Option<(Instant, CpuSeconds)>,
    units: u64,
}

/// A finished count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// The counted units: bytes or elements.
    pub(crate) units: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu: CpuSeconds,
}

/// The processor time of the reader and of its producing processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuSeconds {
    pub(crate) reader: f64,
    /// The processor time of the producers. `None` if the producers run in the reader's process, or on
    /// another host.
    pub(crate) producers: Option<f64>,
}

impl Meter {
    /// Creates a meter for `seconds` after a warm-up. The warm-up takes a quarter of that time, at most a
    /// second. `children` are the process ids of the producers.
    pub(crate) fn new(seconds: f64, children: Vec<u32>) -> Self {
        let warm_up = Duration::from_secs_f64((seconds / 4.0).min(1.0));
        let (length, started) = (Duration::from_secs_f64(seconds), Instant::now());
        Self {
            warm_up,
            length,
            started,
            children,
            measured_from: None,
            units: 0,
        }
    }

    /// Counts units. Returns the finished count when the time is over.
    pub(crate) fn count(&mut self, units: u64) -> Option<Measured> {
        let now = Instant::now();
        let Some((from, cpu)) = self.measured_from else {
            if now.duration_since(self.started) >= self.warm_up {
                self.measured_from = Some((now, self.cpu()));
            }
            return None;
        };
        self.units += units;
        let elapsed = now.duration_since(from);
        if elapsed < self.length {
            return None;
        }
        let end = self.cpu();
        let cpu = CpuSeconds {
            reader: end.reader - cpu.reader,
            producers: end.producers.zip(cpu.producers).map(|(end, from)| end - from),
        };
        Some(Measured {
            units: self.units,
            seconds: elapsed.as_secs_f64(),
            cpu,
        })
    }

    fn cpu(&self) -> CpuSeconds {
        CpuSeconds {
            reader: cpu_seconds(std::process::id()),
            producers: (!self.children.is_empty())
                .then(|| self.children.iter().map(|&child| cpu_seconds(child)).sum()),
        }
    }
}
