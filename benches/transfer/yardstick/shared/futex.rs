//! The wake-up time of a sleeping process: from before the system call that wakes the process to the
//! process's first instruction.
//!
//! A transfer to a sleeping reader takes at least this time, so it is the yardstick of a transport's latency.

use std::sync::atomic::Ordering;

use millstream::dataplane::transport::shm::{LINE_WORDS, Words};

use super::area::Area;
use crate::stamp::{Pace, now_ns};
use crate::tally::{Tallied, Tally};

/// The default number of wake-ups a second. The rate is low enough for the reader to sleep before each
/// wake-up.
pub(crate) const RATE: u64 = 1000;

/// The size of the memory in words.
pub(crate) const WORDS: usize = 2 * LINE_WORDS;

const BELL: usize = 0;
const STAMP: usize = LINE_WORDS;

/// Wakes the reader at the given rate, until the reader is gone.
pub(crate) fn send(area: &Area, rate: Option<u64>) -> Result<(), String> {
    let pace = Pace::new(Some(rate.unwrap_or(RATE)));
    for place in 0.. {
        pace.wait(place);
        area.words()[STAMP].store(now_ns(), Ordering::Relaxed);
        area.bell(BELL).ring()?;
    }
    Ok(())
}

/// Sleeps and wakes up until the tally is complete.
pub(crate) fn receive(area: &Area, mut tally: Tally) -> Result<Tallied, String> {
    let mut heard = 0;
    loop {
        area.bell(BELL).wait(heard)?;
        heard = area.bell(BELL).heard();
        if let Some(tallied) = tally.count(area.words()[STAMP].load(Ordering::Relaxed)) {
            return Ok(tallied);
        }
    }
}
