//! How each pack of one task travels on one link: plain or compressed, whichever is measured to be faster.
//!
//! While the link is not what is waited for, packs travel plain. While it is, samples say what compressing
//! would come to; when that is more than the link delivers, it is tried, and kept if what is delivered grows
//! by it. So what no sample shows, such as processors that are busy otherwise or a reader that is slow to
//! restore, counts as well. A trial that fails is repeated after longer and longer times, or when the link or
//! the data have changed. While packs are compressed, only packs sent plain show whether the link or the
//! consumer has changed so that they would do: a short probe now and then, and when less is delivered than
//! before.

use std::time::{Duration, Instant};

use super::codec::{Codec, Sample};
use super::meter::{Meter, Standing, Window};

/// The predicted gain that a trial is begun for.
const WORTH_TRYING: f64 = 1.05;

/// The measured gain that compressing is kept for.
const WORTH_KEEPING: f64 = 1.02;

/// Windows of a trial: in the first the pipeline still fills.
const TRIAL_WINDOWS: u32 = 2;

/// Windows in a row with less than the link had delivered of plain packs, after which there is a probe at
/// once.
const POOR_WINDOWS: u32 = 2;

/// The time to the next trial or probe, in times what the last one took: so they take 1.6 % of the time at
/// most, of which a part is lost.
const REST: u32 = 64;

/// The time to the first probe after a trial, which may have been lucky. Each next probe is twice as far
/// away, up to that bound.
const REST_AT_FIRST: u32 = 8;

/// Windows in a row in which the link was the limit, and as fast, before a trial: a link that has just begun
/// still gets faster.
const STEADY_WINDOWS: u32 = 3;

/// Trials in a row that fail double their distance so many times at most.
const DOUBLINGS_MAX: u32 = 6;

/// The weight of the latest window beside those before it.
const WEIGHT: f64 = 0.25;

/// A link or a ratio that differs by this factor from that of a failed trial is worth another one.
const CHANGE: f64 = 1.5;

/// The form in which a pack is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The pack is sent uncompressed.
    Plain,
    /// The pack is sent uncompressed, and a part of it is compressed as a sample.
    Sampled,
    /// Compressed.
    Compressed,
}

/// The present mode of the choice.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Plain,
    /// Compresses, to see whether more is delivered.
    Trial {
        windows: u32,
        best: f64,
    },
    Compressing {
        poor: u32,
        /// Bytes of elements delivered a second, over the last windows.
        rate: f64,
    },
    /// Sends plain packs for a moment, to see whether less is delivered than compressed.
    Probe {
        compressed_rate: f64,
    },
}

/// The figures of a trial that failed.
#[derive(Debug, Clone, Copy)]
struct Failed {
    link_rate: f64,
    ratio: f64,
}

/// One task on one link.
#[derive(Debug)]
pub(crate) struct Auto {
    threads: usize,
    meter: Meter,
    codec: Codec,
    mode: Mode,
    mode_since: Instant,
    /// Bytes of plain packs a second that the link delivers when it is the limit, as last seen.
    link_rate: Option<f64>,
    /// Windows in a row in which it delivered about that.
    steady_windows: u32,
    /// Whether it was in the last window of plain packs.
    is_link_limited: bool,
    failed: Option<Failed>,
    failures: u32,
    try_at: Instant,
    probe_at: Instant,
    probe_rest: u32,
}

impl Auto {
    /// At the beginning of a link, with so many threads that compress.
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

    /// Books what the sample came to that [`Plan::Sampled`] asked for; `None` when there was no memory for
    /// it.
    pub(crate) fn note_sample(&mut self, now: Instant, sample: Option<Sample>) {
        self.codec.note_sample(sample, now);
    }

    /// Books what compressing a pack that travels so came to.
    pub(crate) fn note_compressed(&mut self, sample: Sample) {
        self.codec.note(sample);
    }

    /// Books that the task has nothing ready.
    pub(crate) fn note_starved(&mut self, now: Instant) {
        self.meter.note_starved(now);
    }

    /// Books a grant.
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

    /// The link's speed is that of the last windows, unless it has changed.
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
            // The windows go on: nothing travels otherwise than before.
            (self.mode, self.mode_since) = (Mode::Compressing { poor: 0, rate }, now);
        } else {
            self.give_up(now);
        }
    }

    /// Plain packs are as fast.
    fn give_up(&mut self, now: Instant) {
        self.try_at = now + self.took(now) * (REST << self.failures.min(DOUBLINGS_MAX));
        self.failures += 1;
        self.failed = Some(Failed {
            link_rate: self.link_rate.unwrap_or(0.0),
            ratio: self.codec.ratio(),
        });
        self.enter(now, Mode::Plain);
    }

    /// Returns the time of the present trial or probe.
    fn took(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.mode_since)
    }

    fn enter(&mut self, now: Instant, mode: Mode) {
        (self.mode, self.mode_since) = (mode, now);
        self.meter.settle();
    }
}
