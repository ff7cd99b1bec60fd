//! The progress bar, with the rates and the share of time spent waiting. The bar is hidden if standard error
//! is not a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console::bytes_text;

/// The template of the progress bar.
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

    /// Counts a batch, and the time that the reader waited for the batch.
    pub(super) fn add(&mut self, pictures: u64, bytes: usize, waited: Duration) {
        self.pictures += pictures;
        self.bytes += bytes as u64;
        self.waited += waited;
        self.bar.set_position(self.pictures);
        self.bar.set_message(self.rates());
    }

    /// Returns a text with elements and bytes per second, and the share of the time spent waiting.
    pub(super) fn rates(&self) -> String {
        let elapsed_s = self.since.elapsed().as_secs_f64().max(1e-9);
        format!(
            "{:.0} elements/s, {}/s, waited {:.0} % of the time",
            self.pictures as f64 / elapsed_s,
            bytes_text((self.bytes as f64 / elapsed_s) as u64),
            100.0 * (self.waited.as_secs_f64() / elapsed_s).min(1.0),
        )
    }

    /// Runs `say`, which prints above the progress bar.
    pub(super) fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Removes the progress bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
