//! The yardstick of a bare ring between two processes, with one descriptor per element. The slots contain the
//! stamps, and sleeping processes wait at a futex.
//!
//! The ring is the data plane's ring. The yardstick has no leases (a slot is free when its descriptor was
//! taken), no packs, no credits, no pipeline and no service. Each side spins for a short time before it
//! sleeps.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream::dataplane::transport::shm::{ControlLayout, LINE_WORDS, RingReceiver, RingSender, Words};

use super::area::Area;
use crate::stamp::{self, Checker, Pace};
use crate::tally::{Tallied, Tally, look_every};

/// The minimum bytes of all slots together. The other yardsticks' buffers have the same size.
const SLOTS_BYTES: usize = 8 << 20;

/// The minimum number of slots. Only the stamps are written, so that many large slots need little memory.
const SLOTS_MIN: usize = 64;

/// The maximum number of words in the ring. A link of the service has the same maximum.
const RING_WORDS_MAX: usize = 32 * 1024;

/// The number of words in a descriptor: the element's position and its size. The ring stores the length of a
/// descriptor before the descriptor.
const FRAME_WORDS: usize = 2;

/// The number of polls of the ring before a side sleeps. All polls together take some microseconds, which is
/// less than a wake-up.
const SPINS: u32 = 256;

/// The number of parts of the ring. The reader wakes a sleeping producer after it has emptied one part.
const WAKE_PARTS: usize = 4;

/// The offsets of all parts of the shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    element_bytes: u64,
    layout: ControlLayout,
    slots: usize,
    slot_words: usize,
    descriptors: usize,
}

impl Plan {
    pub(crate) fn new(element_bytes: u64) -> Self {
        let slot_words = (element_bytes as usize / size_of::<u64>()).next_multiple_of(LINE_WORDS / 2);
        let slots = (SLOTS_BYTES / (slot_words * size_of::<u64>())).max(SLOTS_MIN);
        // There are two more slots than descriptors in the ring: one slot is being written, and another is
        // being read.
        let ring_words = ((slots - 2) * (FRAME_WORDS + 1)).min(RING_WORDS_MAX);
        let ring_words = 1 << ring_words.ilog2();
        Self {
            element_bytes,
            layout: ControlLayout::new(ring_words, FRAME_WORDS, 1),
            slots,
            slot_words,
            descriptors: ring_words / (FRAME_WORDS + 1),
        }
    }

    /// Returns the size of the memory in words.
    pub(crate) fn words(&self) -> usize {
        self.first_slot() + self.slots * self.slot_words
    }

    fn reader_bell(&self) -> usize {
        self.layout.words()
    }

    fn producer_bell(&self) -> usize {
        self.layout.words() + LINE_WORDS
    }

    fn first_slot(&self) -> usize {
        self.layout.words() + 2 * LINE_WORDS
    }

    fn slot(&self, place: u64) -> usize {
        self.first_slot() + (place % self.slots as u64) as usize * self.slot_words
    }

    /// Returns the first and the last word of the element in the slot at this word.
    fn stamps<'a>(&self, area: &'a Area, slot: usize) -> [&'a AtomicU64; 2] {
        let words = area.words();
        let last = slot + self.element_bytes as usize / size_of::<u64>() - 1;
        [&words[slot], &words[last]]
    }
}

/// Sends elements until the reader is gone.
pub(crate) fn send(area: &Area, plan: Plan, rate: Option<u64>) -> Result<(), String> {
    let mut sender = RingSender::new(area, plan.layout.down);
    let (pace, look_every) = (Pace::new(rate), look_every(plan.element_bytes, rate));
    let mut produced_ns = 0;
    for place in 0.. {
        pace.wait(place);
        if place % look_every == 0 {
            produced_ns = stamp::now_ns();
        }
        let slot = plan.slot(place);
        let [first, last] = plan.stamps(area, slot);
        first.store(place, Ordering::Relaxed);
        last.store(stamp::last_word(place, produced_ns), Ordering::Relaxed);
        let mut spins = 0;
        while !sender
            .try_push(&[slot as u64, plan.element_bytes])
            .map_err(|error| error.to_string())?
        {
            spins += 1;
            let bell = area.bell(plan.producer_bell());
            let heard = bell.heard();
            if spins < SPINS {
                std::hint::spin_loop();
            } else if sender
                .prepare_wait(FRAME_WORDS)
                .map_err(|error| error.to_string())?
            {
                bell.wait(heard)?;
            }
        }
        if sender.needs_wake() {
            area.bell(plan.reader_bell()).ring()?;
        }
    }
    Ok(())
}

/// Takes elements until the tally is complete.
pub(crate) fn receive(area: &Area, plan: Plan, mut tally: Tally) -> Result<Tallied, String> {
    let mut receiver = RingReceiver::new(area, plan.layout.down);
    let mut checker = Checker::new(1, false);
    let mut frame = Vec::with_capacity(FRAME_WORDS);
    let wake_every = (plan.descriptors / WAKE_PARTS).max(1);
    let (mut spins, mut taken) = (0, 0);
    loop {
        if !receiver.pop(&mut frame).map_err(|error| error.to_string())? {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            wake_producer(area, plan, &receiver)?;
            let bell = area.bell(plan.reader_bell());
            let heard = bell.heard();
            if receiver.prepare_wait().map_err(|error| error.to_string())? {
                bell.wait(heard)?;
            }
            continue;
        }
        spins = 0;
        taken += 1;
        if taken % wake_every == 0 {
            wake_producer(area, plan, &receiver)?;
        }
        let slot = frame.first().copied().unwrap_or_default() as usize;
        let [first, last] = plan.stamps(area, slot);
        let stamps = (first.load(Ordering::Relaxed), last.load(Ordering::Relaxed));
        let produced_ns = checker.check_words(stamps.0, stamps.1)?;
        if let Some(tallied) = tally.count(produced_ns) {
            return Ok(tallied);
        }
    }
}

fn wake_producer(area: &Area, plan: Plan, receiver: &RingReceiver<&Area>) -> Result<(), String> {
    if receiver.needs_wake() {
        area.bell(plan.producer_bell()).ring()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_readable_slot_is_written_again() {
        for element_bytes in [16, 64, 1 << 10, 1 << 20, 1 << 30] {
            let plan = Plan::new(element_bytes);
            assert!(
                plan.descriptors >= 1 && plan.descriptors + 2 <= plan.slots,
                "{plan:?}"
            );
            assert!(plan.slot_words * 8 >= element_bytes as usize);
            assert!(plan.slot(plan.slots as u64 - 1) + plan.slot_words <= plan.words());
        }
    }
}
