//! A ring of frames: one sender, one receiver, in shared memory that the peer can write as it likes.
//!
//! A frame is 1 to `frame_words_max` words and goes behind its length (D10.2). Owns the order of frames and
//! their bounds. Refuses to know what they say, and how a side sleeps.
//!
//! Invariant: each side believes itself alone. Its own index is private and never read back; the peer's may
//! only advance and only within the ring; a frame is copied out before anything is read of it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use thiserror::Error;

use super::layout::RingPlace;
use super::wait::{self, WaitFlag};
use super::words::{Word, Words};
use crate::transport::LinkLost;

/// Why a ring cannot go on. All but the last are the peer's doing, and the link ends with them.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum RingError {
    /// The peer took back what it had said of its index.
    #[error("its index of the {ring} ring went back from {was} to {now}")]
    WentBack {
        /// The name of the ring.
        ring: &'static str,
        /// The earlier index, in words.
        was: u64,
        /// The index now.
        now: u64,
    },
    /// The peer's index is where it cannot be.
    #[error("its index of the {ring} ring is {now}, and can be {limit} at most")]
    Beyond {
        /// The name of the ring.
        ring: &'static str,
        /// The index, in words.
        now: u64,
        /// The largest index that it can have.
        limit: u64,
    },
    /// A frame has a length that it cannot have.
    #[error(
        "a frame in the {ring} ring says it has {words} words, of which {available} are there and {max} are allowed"
    )]
    Length {
        /// The name of the ring.
        ring: &'static str,
        /// The length that the frame says.
        words: u64,
        /// Words behind its length.
        available: u64,
        /// Words a frame may have.
        max: usize,
    },
    /// The caller's fault: a frame that cannot be sent.
    #[error("a frame for the {ring} ring has 1 to {max} words, not {words}")]
    Unsendable {
        /// The name of the ring.
        ring: &'static str,
        /// The words.
        words: usize,
        /// Words a frame may have.
        max: usize,
    },
}

impl From<RingError> for LinkLost {
    fn from(error: RingError) -> Self {
        let reason = error.to_string();
        match error {
            RingError::WentBack { .. } | RingError::Beyond { .. } | RingError::Length { .. } => {
                Self::Misbehaved(reason)
            }
            RingError::Unsendable { .. } => Self::Resource(reason),
        }
    }
}

/// The end that frames go into.
#[derive(Debug)]
pub struct RingSender<W> {
    words: W,
    place: RingPlace,
    /// Our index. At most `capacity` beyond `head_seen`.
    tail: u64,
    /// The receiver's index when it was last looked at, which is only when room is short.
    head_seen: u64,
    room: WaitFlag,
}

impl<W: Words> RingSender<W> {
    /// The sender of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// If the area is too small for the place.
    pub fn new(words: W, place: RingPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self {
            words,
            place,
            tail: 0,
            head_seen: 0,
            room: WaitFlag::new(place.sender_waits),
        }
    }

    /// Puts a frame in; `false` if it does not fit now. Then ask [`RingSender::needs_wake`], once for any
    /// number of frames.
    pub fn try_push(&mut self, frame: &[u64]) -> Result<bool, RingError> {
        self.try_push_parts(frame, std::iter::empty())
    }

    /// Puts a frame in that is made of two parts, the second of them written as it is produced: as many words
    /// as it says that it has.
    pub fn try_push_parts(
        &mut self,
        header: &[u64],
        mut table: impl ExactSizeIterator<Item = u64>,
    ) -> Result<bool, RingError> {
        let frame_words = header.len() + table.len();
        self.check_sendable(frame_words)?;
        self.room.lower(self.words.words());
        if !self.finds_room(frame_words)? {
            return Ok(false);
        }
        self.write(1, &mut std::iter::once(frame_words as u64));
        self.write(header.len(), &mut header.iter().copied());
        self.write(frame_words - header.len(), &mut table);
        // Partner: the Acquire load of `tail` in `RingReceiver::finds_frame`.
        self.words.words()[self.place.tail].store(self.tail, Release);
        Ok(true)
    }

    /// Returns whether a frame of so many words fits now.
    pub fn has_room(&mut self, frame_words: usize) -> Result<bool, RingError> {
        self.check_sendable(frame_words)?;
        self.finds_room(frame_words)
    }

    /// Returns whether the receiver sleeps, and its bell is to be rung now. Call after pushing.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.receiver_waits)
    }

    /// Returns the sleepers of a ring whose receiver may also be a thread, which sleeps on the word
    /// `receiver_dozes`.
    pub fn sleepers(&self) -> Sleepers {
        let flags = [self.place.receiver_waits, self.place.receiver_dozes];
        let [task, thread] = wait::need_wake(self.words.words(), flags);
        Sleepers { task, thread }
    }

    /// Returns whether this side may sleep until its bell rings, because a frame of so many words does not
    /// fit. Empty the bell before, not after.
    pub fn prepare_wait(&mut self, frame_words: usize) -> Result<bool, RingError> {
        self.check_sendable(frame_words)?;
        self.room.raise(self.words.words());
        let has_room = self.finds_room(frame_words)?;
        if has_room {
            self.room.lower(self.words.words());
        }
        Ok(!has_room)
    }

    fn check_sendable(&self, frame_words: usize) -> Result<(), RingError> {
        if (1..=self.place.frame_words_max).contains(&frame_words) {
            return Ok(());
        }
        Err(RingError::Unsendable {
            ring: self.place.name,
            words: frame_words,
            max: self.place.frame_words_max,
        })
    }

    fn finds_room(&mut self, frame_words: usize) -> Result<bool, RingError> {
        let needed = frame_words as u64 + 1;
        if self.free() >= needed {
            return Ok(true);
        }
        // Partner: the Release store of `head` in `RingReceiver::pop`. What was read is overwritten only
        // behind it.
        let head = self.words.words()[self.place.head].load(Acquire);
        check_advance(self.place.name, self.head_seen, head, self.tail)?;
        self.head_seen = head;
        Ok(self.free() >= needed)
    }

    fn free(&self) -> u64 {
        debug_assert!(self.tail - self.head_seen <= self.place.capacity as u64);
        self.place.capacity as u64 - (self.tail - self.head_seen)
    }

    /// Writes the next `count` words of the ring, which are free. The peer sees them when `tail` is stored.
    fn write(&mut self, count: usize, values: &mut impl Iterator<Item = u64>) {
        let (before, behind) = self.place.runs(self.words.words(), self.tail, count);
        for run in [before, behind] {
            for (word, value) in run.iter().zip(values.by_ref()) {
                word.store(value, Relaxed);
            }
        }
        self.tail += count as u64;
    }
}

/// The threads that sleep until there is a frame, and are to be woken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleepers {
    /// A task, by its bell.
    pub task: bool,
    /// A thread, at its word.
    pub thread: bool,
}

/// The end that frames come out of.
#[derive(Debug)]
pub struct RingReceiver<W> {
    words: W,
    place: RingPlace,
    /// Our index. At most `tail_seen`.
    head: u64,
    /// The sender's index when it was last looked at, which is only when everything up to it was taken. At
    /// most `capacity` beyond `head`.
    tail_seen: u64,
    frames: WaitFlag,
    dozes: WaitFlag,
}

impl<W: Words> RingReceiver<W> {
    /// The receiver of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// If the area is too small for the place.
    pub fn new(words: W, place: RingPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self {
            words,
            place,
            head: 0,
            tail_seen: 0,
            frames: WaitFlag::new(place.receiver_waits),
            dozes: WaitFlag::new(place.receiver_dozes),
        }
    }

    /// Copies the next frame to `into`, whose old content goes; `false` if there is none. Does not allocate
    /// where `into` has room for the largest frame. Then ask [`RingReceiver::needs_wake`], once for any
    /// number of frames.
    pub fn pop(&mut self, into: &mut Vec<u64>) -> Result<bool, RingError> {
        into.clear();
        self.lower();
        if !self.finds_frame()? {
            return Ok(false);
        }
        let words = self.words.words();
        let frame_words = self.frame_words()?;
        let (before, behind) = self.place.runs(words, self.head + 1, frame_words);
        into.extend(before.iter().map(|word| word.load(Relaxed)));
        into.extend(behind.iter().map(|word| word.load(Relaxed)));
        self.head += frame_words as u64 + 1;
        // Partner: the Acquire load of `head` in `RingSender::finds_room`.
        words[self.place.head].store(self.head, Release);
        Ok(true)
    }

    /// Returns whether the sender sleeps, and its bell is to be rung now. Call after popping.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.sender_waits)
    }

    /// Returns whether this side may sleep until its bell rings, because there is no frame. Empty the bell
    /// before, not after.
    pub fn prepare_wait(&mut self) -> Result<bool, RingError> {
        self.frames.raise(self.words.words());
        self.looks_again()
    }

    /// Prepares to sleep, for a thread that sleeps on the word `receiver_dozes`.
    pub fn prepare_doze(&mut self) -> Result<bool, RingError> {
        self.dozes.raise(self.words.words());
        self.looks_again()
    }

    fn looks_again(&mut self) -> Result<bool, RingError> {
        let has_frame = self.finds_frame()?;
        if has_frame {
            self.lower();
        }
        Ok(!has_frame)
    }

    fn lower(&mut self) {
        self.frames.lower(self.words.words());
        self.dozes.lower(self.words.words());
    }

    fn finds_frame(&mut self) -> Result<bool, RingError> {
        debug_assert!((0..=self.place.capacity as u64).contains(&(self.tail_seen - self.head)));
        if self.head == self.tail_seen {
            // Partner: the Release store of `tail` in `RingSender::try_push_parts`.
            let tail = self.words.words()[self.place.tail].load(Acquire);
            let limit = self.head + self.place.capacity as u64;
            check_advance(self.place.name, self.tail_seen, tail, limit)?;
            self.tail_seen = tail;
        }
        Ok(self.head < self.tail_seen)
    }

    /// The length of the frame at `head`, read once and then believed only within the bounds.
    fn frame_words(&self) -> Result<usize, RingError> {
        let (first, _) = self.place.runs(self.words.words(), self.head, 1);
        let words = first[0].load(Relaxed);
        let available = self.tail_seen - self.head - 1;
        let max = self.place.frame_words_max;
        if words == 0 || words > available || words > max as u64 {
            return Err(RingError::Length {
                ring: self.place.name,
                words,
                available,
                max,
            });
        }
        // At most `max`, which is a usize.
        Ok(words as usize)
    }
}

/// Returns whether the peer's index can have gone from `was` to `now`.
fn check_advance(ring: &'static str, was: u64, now: u64, limit: u64) -> Result<(), RingError> {
    if now < was {
        return Err(RingError::WentBack { ring, was, now });
    }
    if now > limit {
        return Err(RingError::Beyond { ring, now, limit });
    }
    Ok(())
}
