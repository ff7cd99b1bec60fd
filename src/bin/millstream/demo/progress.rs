//! The bar: how far, how fast, and how much of the time was spent waiting. Nothing where standard error is no
//! terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console::bytes_text;

/// The template of the bar.
const TEMPLATE: &str = "{bar:30} {pos}/{len} pictures  {msg}";

/// The progress of reading, over all epochs.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    since: Instant,
    pictures: u64,
    bytes: u64,
    waited: Duration,
}

impl Progress {
    pub(super) fn new(expected: u64) -> Self {
        let bar = ProgressBar::new(expected);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self {
            bar,
            since: Instant::now(),
            pictures: 0,
            bytes: 0,
            waited: Duration::ZERO,
        }
    }

    /// Counts a batch that was waited for this long.
    pub(super) fn add(&mut self, pictures: u64, bytes: usize, waited: Duration) {
        self.pictures += pictures;
        self.bytes += bytes as u64;
        self.waited += waited;
        self.bar.set_position(self.pictures);
        self.bar.set_message(self.rates());
    }

    /// Elements and bytes a second, and the share of the time that was spent waiting.
    pub(super) fn rates(&self) -> String {
        let elapsed_s = self.since.elapsed().as_secs_f64().max(1e-9);
        format!(
            "{:.0} elements/s, {}/s, waited {:.0} % of the time",
            self.pictures as f64 / elapsed_s,
            bytes_text((self.bytes as f64 / elapsed_s) as u64),
            100.0 * (self.waited.as_secs_f64() / elapsed_s).min(1.0),
        )
    }

    /// Says something above the bar.
    pub(super) fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
