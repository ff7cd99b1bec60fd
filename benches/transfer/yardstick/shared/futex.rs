//! How long a sleeping process takes to wake up: from before the system call that wakes it to its first
//! instruction.
//!
//! What any hand-over to a sleeping reader takes at least, and so what the latency of a transport is held
//! against.

use std::sync::atomic::Ordering;

use millstream::dataplane::transport::shm::{LINE_WORDS, Words};

use super::area::Area;
use crate::stamp::{Pace, now_ns};
use crate::tally::{Tallied, Tally};

/// Wake-ups a second where no rate is given: rare enough for the reader to sleep before each.
pub(crate) const RATE: u64 = 1000;

/// Words of the memory.
pub(crate) const WORDS: usize = 2 * LINE_WORDS;

const BELL: usize = 0;
const STAMP: usize = LINE_WORDS;

/// Wakes the reader so many times a second, until it goes away.
pub(crate) fn send(area: &Area, rate: Option<u64>) -> Result<(), String> {
    let pace = Pace::new(Some(rate.unwrap_or(RATE)));
    for place in 0.. {
        pace.wait(place);
        area.words()[STAMP].store(now_ns(), Ordering::Relaxed);
        area.bell(BELL).ring()?;
    }
    Ok(())
}

/// Sleeps and wakes up until the tally is done.
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
