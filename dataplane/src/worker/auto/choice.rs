//! Chooses for each pack of one task on one link whether to compress it. The faster form, as measured, wins.
//!
//! While the link is not the bottleneck, packs are sent plain. While it is, samples predict the throughput
//! with compression. If the prediction exceeds the link's throughput, compression is tried, and kept if the
//! measured throughput grows. Therefore influences that no sample shows count as well, such as busy
//! processors or a slow reader.
//!
//! A failed trial is repeated after longer and longer times, or when the link or the data have changed. While
//! packs are compressed, only plain packs show whether compression still pays off. Therefore the choice sends
//! plain packs as a short probe now and then, and also when the throughput falls.

use std::time::{Duration, Instant};

use super::codec::{Codec, Sample};
use super::meter::{Meter, Standing, Window};

/// The predicted gain from which on a trial begins.
const WORTH_TRYING: f64 = 1.05;

/// The measured gain from which on compression is kept.
const WORTH_KEEPING: f64 = 1.02;

/// The number of windows of a trial. In the first window the pipeline still fills.
const TRIAL_WINDOWS: u32 = 2;

/// The number of consecutive windows with less throughput than with plain packs, after which a probe begins
/// at once.
const POOR_WINDOWS: u32 = 2;

/// The time to the next trial or probe, as a multiple of the duration of the last one. Trials and probes thus
/// take at most 1.6 % of the time, and lose only a part of it.
const REST: u32 = 64;

/// The time to the first probe after a trial, as a multiple of the trial's duration. The time is short,
/// because the trial may have been lucky. The time to the next probe doubles with each probe, up to `REST`.
const REST_AT_FIRST: u32 = 8;

/// The number of consecutive windows with the link as a bottleneck of stable speed before a trial. A link
/// that has just begun still becomes faster.
const STEADY_WINDOWS: u32 = 3;

/// Maximum number of consecutive failed trials that double the time to the next trial.
const DOUBLINGS_MAX: u32 = 6;

/// The weight of the latest window in the moving average.
const WEIGHT: f64 = 0.25;

/// The factor by which the link's speed or the ratio must differ from those of a failed trial, so that
/// another trial pays off.
const CHANGE: f64 = 1.5;

/// The form in which a pack is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The pack is sent uncompressed.
    Plain,
    /// The pack is sent uncompressed, and a part of it is compressed as a sample.
    Sampled,
    /// The pack is compressed.
    Compressed,
}

/// The present mode of the choice.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Plain,
    /// Compresses packs to measure whether the throughput grows.
    Trial {
        windows: u32,
        best: f64,
    },
    Compressing {
        poor: u32,
        /// The elements delivered per second, in bytes, as a moving average of the windows.
        rate: f64,
    },
    /// Sends plain packs for a short time to measure whether the throughput falls.
    Probe {
        compressed_rate: f64,
    },
}

/// The measurements at a trial that failed.
#[derive(Debug, Clone, Copy)]
struct Failed {
    link_rate: f64,
    ratio: f64,
}

/// The choice for one task on one link.
#[derive(Debug)]
pub(crate) struct Auto {
    threads: usize,
    meter: Meter,
    codec: Codec,
    mode: Mode,
    mode_since: Instant,
    /// The throughput of plain packs in bytes per second while the link is the bottleneck, as measured last.
    link_rate: Option<f64>,
    /// The number of consecutive windows with about that throughput.
    steady_windows: u32,
    /// True if the link was the bottleneck in the last window of plain packs.
    is_link_limited: bool,
    failed: Option<Failed>,
    failures: u32,
    try_at: Instant,
    probe_at: Instant,
    probe_rest: u32,
}

impl Auto {
    /// Makes the choice for a new link, with `threads` threads for compression.
    pub(crate) fn new(threads: usize, now: Instant) -> Self {
        Self {
            threads,
            meter: Meter::new(now),
            codec: Codec::default(),
            mode: Mode::Plain,
            mode_since: now,
            link_rate: None,
            steady_windows: 0,
            is_link_limited: false,
            failed: None,
            failures: 0,
            try_at: now,
            probe_at: now,
            probe_rest: REST_AT_FIRST,
        }
    }

    /// Returns the form of the next pack, which ends after the subscription's first `end` elements.
    pub(crate) fn plan(&mut self, now: Instant, end: u64, elements: u64, bytes: u64) -> Plan {
        let plan = match self.mode {
            Mode::Trial { .. } | Mode::Compressing { .. } => Plan::Compressed,
            Mode::Plain if self.is_link_limited || self.codec.is_unknown() => {
                if self.codec.wants_sample(now) {
                    Plan::Sampled
                } else {
                    Plan::Plain
                }
            }
            Mode::Plain | Mode::Probe { .. } => Plan::Plain,
        };
        self.meter.note_taken(now, end, elements, bytes);
        plan
    }

    /// Records the result of the sample that [`Plan::Sampled`] asked for, or `None` if no memory was
    /// available.
    pub(crate) fn note_sample(&mut self, now: Instant, sample: Option<Sample>) {
        self.codec.note_sample(sample, now);
    }

    /// Records the result of compressing a pack that is sent compressed.
    pub(crate) fn note_compressed(&mut self, sample: Sample) {
        self.codec.note(sample);
    }

    /// Records that the task has no element ready.
    pub(crate) fn note_starved(&mut self, now: Instant) {
        self.meter.note_starved(now);
    }

    /// Records a grant of the client.
    pub(crate) fn note_grant(&mut self, now: Instant, standing: Standing) {
        if let Some(window) = self.meter.note_grant(now, standing) {
            self.handle_window(now, window);
        }
    }

    fn handle_window(&mut self, now: Instant, window: Window) {
        match self.mode {
            Mode::Plain => {
                self.note_plain_window(&window);
                if let Some(link_rate) = self.link_rate
                    && self.steady_windows >= STEADY_WINDOWS
                    && self.is_worth_trying(now, link_rate)
                {
                    self.enter(
                        now,
                        Mode::Trial {
                            windows: 0,
                            best: 0.0,
                        },
                    );
                }
            }
            Mode::Trial { windows, best } => {
                let (windows, best) = (windows + 1, window.rate.max(best));
                self.mode = Mode::Trial { windows, best };
                if windows == TRIAL_WINDOWS {
                    self.end_trial(now, best);
                }
            }
            Mode::Compressing { poor, rate } => {
                let is_poor = self
                    .link_rate
                    .is_some_and(|link_rate| window.rate < WORTH_KEEPING * link_rate);
                let poor = if is_poor { poor + 1 } else { 0 };
                let rate = rate + WEIGHT * (window.rate - rate);
                self.mode = Mode::Compressing { poor, rate };
                if poor == POOR_WINDOWS || now >= self.probe_at {
                    let compressed_rate = rate;
                    self.enter(now, Mode::Probe { compressed_rate });
                }
            }
            Mode::Probe { compressed_rate } => {
                self.is_link_limited = window.is_link_limited;
                self.link_rate = Some(window.rate);
                if WORTH_KEEPING * window.rate >= compressed_rate {
                    self.give_up(now);
                } else {
                    self.probe_at = now + self.took(now) * self.probe_rest;
                    self.probe_rest = (2 * self.probe_rest).min(REST);
                    let (poor, rate) = (0, compressed_rate);
                    self.enter(now, Mode::Compressing { poor, rate });
                }
            }
        }
    }

    /// Records a window of plain packs. The link's speed is the average of recent windows, unless the speed
    /// has changed.
    fn note_plain_window(&mut self, window: &Window) {
        self.is_link_limited = window.is_link_limited;
        if !window.is_link_limited {
            self.steady_windows = 0;
            return;
        }
        let is_steady = |rate: &f64| window.rate.max(*rate) < CHANGE * window.rate.min(*rate);
        let steady = self.link_rate.filter(is_steady);
        self.steady_windows = if steady.is_some() {
            self.steady_windows + 1
        } else {
            1
        };
        self.link_rate = Some(steady.map_or(window.rate, |rate| rate.midpoint(window.rate)));
    }

    fn is_worth_trying(&self, now: Instant, link_rate: f64) -> bool {
        let ratio = self.codec.ratio();
        let is_other = self
            .failed
            .is_none_or(|failed| CHANGE * link_rate < failed.link_rate || ratio > CHANGE * failed.ratio);
        (is_other || now >= self.try_at)
            && self.codec.rate(link_rate, self.threads) >= WORTH_TRYING * link_rate
    }

    fn end_trial(&mut self, now: Instant, rate: f64) {
        if rate >= WORTH_KEEPING * self.link_rate.unwrap_or(0.0) {
            (self.failed, self.failures) = (None, 0);
            self.probe_at = now + self.took(now) * REST_AT_FIRST;
            self.probe_rest = 2 * REST_AT_FIRST;
            // The open window of the meter continues, because packs are sent in the same form as before.
            (self.mode, self.mode_since) = (Mode::Compressing { poor: 0, rate }, now);
        } else {
            self.give_up(now);
        }
    }

    /// Returns to plain packs, which are as fast, and schedules the next trial.
    fn give_up(&mut self, now: Instant) {
        self.try_at = now + self.took(now) * (REST << self.failures.min(DOUBLINGS_MAX));
        self.failures += 1;
        self.failed = Some(Failed {
            link_rate: self.link_rate.unwrap_or(0.0),
            ratio: self.codec.ratio(),
        });
        self.enter(now, Mode::Plain);
    }

    /// Returns the duration of the present trial or probe.
    fn took(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.mode_since)
    }

    fn enter(&mut self, now: Instant, mode: Mode) {
        (self.mode, self.mode_since) = (mode, now);
        self.meter.settle();
    }
}
