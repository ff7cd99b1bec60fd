//! A ring of frames with one sender and one receiver, in shared memory that the peer can overwrite at any
//! time.
//!
//! A frame has 1 to `frame_words_max` words and is preceded by its length (D10.2). The ring owns the order of
//! frames and their limits. The contents of frames, and the way in which a side sleeps, are unknown to it.
//!
//! Invariant: each side trusts only its own state. A side keeps its own index privately and never reads it
//! back. The peer's index may only advance, and only within the ring. A frame is copied out before any of its
//! contents is used.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use thiserror::Error;

use super::layout::RingPlace;
use super::wait::{self, WaitFlag};
use super::words::{Word, Words};
use crate::transport::LinkLost;

/// The reason for which a ring cannot continue. The peer is at fault except for `Unsendable`, and the link
/// ends.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum RingError {
    /// The peer's index went backwards.
    #[error("invalid index of the peer in the {ring} ring: expected at least {was}, found {now}")]
    WentBack {
        /// The name of the ring.
        ring: &'static str,
        /// The peer's earlier index, in words.
        was: u64,
        /// The peer's index now, in words.
        now: u64,
    },
    /// The peer's index exceeds the largest possible value.
    #[error("invalid index of the peer in the {ring} ring: expected at most {limit}, found {now}")]
    Beyond {
        /// The name of the ring.
        ring: &'static str,
        /// The peer's index, in words.
        now: u64,
        /// The largest possible index, in words.
        limit: u64,
    },
    /// The length of a frame is invalid.
    #[error(
        "invalid length of a frame in the {ring} ring: expected 1 to {max} words, of which {available} were written, found {words} words"
    )]
    Length {
        /// The name of the ring.
        ring: &'static str,
        /// The length that the frame states, in words.
        words: u64,
        /// The number of words available after the length.
        available: u64,
        /// Maximum number of words of a frame.
        max: usize,
    },
    /// The caller tried to send a frame of an invalid length.
    #[error("expected a frame of 1 to {max} words for the {ring} ring, found {words} words")]
    Unsendable {
        /// The name of the ring.
        ring: &'static str,
        /// The number of words of the frame.
        words: usize,
        /// Maximum number of words of a frame.
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

/// The end of a ring that sends frames.
#[derive(Debug)]
pub struct RingSender<W> {
    words: W,
    place: RingPlace,
    /// The sender's own index, at most `capacity` beyond `head_seen`.
    tail: u64,
    /// The receiver's index as read last. The sender reads the index only when room is short.
    head_seen: u64,
    room: WaitFlag,
}

impl<W: Words> RingSender<W> {
    /// Makes the sender of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// Panics if the memory is too small for the ring.
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

    /// Puts a frame into the ring. Returns `false` if the frame does not fit now. Afterwards the caller asks
    /// [`RingSender::needs_wake`], once for any number of frames.
    pub fn try_push(&mut self, frame: &[u64]) -> Result<bool, RingError> {
        self.try_push_parts(frame, std::iter::empty())
    }

    /// Puts a frame of two parts into the ring. The second part is written while the iterator produces it,
    /// and must yield exactly as many words as its length states.
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

    /// Returns whether a frame of `frame_words` words fits now.
    pub fn has_room(&mut self, frame_words: usize) -> Result<bool, RingError> {
        self.check_sendable(frame_words)?;
        self.finds_room(frame_words)
    }

    /// Returns whether the receiver sleeps, so that the caller must wake it now. The caller asks after it put
    /// frames in.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.receiver_waits)
    }

    /// Returns the sleepers of a ring at which a thread may sleep too, on the word `receiver_dozes`.
    pub fn sleepers(&self) -> Sleepers {
        let flags = [self.place.receiver_waits, self.place.receiver_dozes];
        let [task, thread] = wait::need_wake(self.words.words(), flags);
        Sleepers { task, thread }
    }

    /// Returns whether this side may sleep until it is woken, because a frame of `frame_words` words does not
    /// fit. The caller must discard old wake-ups before, not after.
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
        // Partner: the Release store of `head` in `RingReceiver::pop`. Words that the receiver reads are
        // overwritten only after that store.
        let head = self.words.words()[self.place.head].load(Acquire);
        check_advance(self.place.name, self.head_seen, head, self.tail)?;
        self.head_seen = head;
        Ok(self.free() >= needed)
    }

    fn free(&self) -> u64 {
        debug_assert!(self.tail - self.head_seen <= self.place.capacity as u64);
        self.place.capacity as u64 - (self.tail - self.head_seen)
    }

    /// Writes the next `count` words of the ring, which must be free. The peer sees the words after `tail` is
    /// stored.
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

/// The sleepers that wait for a frame and must be woken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleepers {
    /// True if a task sleeps, which is woken by a datagram.
    pub task: bool,
    /// True if a thread sleeps, which is woken at its word.
    pub thread: bool,
}

/// The end of a ring that receives frames.
#[derive(Debug)]
pub struct RingReceiver<W> {
    words: W,
    place: RingPlace,
    /// The receiver's own index, at most `tail_seen`.
    head: u64,
    /// The sender's index as read last, at most `capacity` beyond `head`. The receiver reads the index only
    /// after it has taken everything up to the last known index.
    tail_seen: u64,
    frames: WaitFlag,
    dozes: WaitFlag,
}

impl<W: Words> RingReceiver<W> {
    /// Makes the receiver of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// Panics if the memory is too small for the ring.
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

    /// Copies the next frame to `into`, replacing its contents. Returns `false` if the ring has no frame.
    /// Does not allocate if `into` has room for the largest frame. Afterwards the caller asks
    /// [`RingReceiver::needs_wake`], once for any number of frames.
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

    /// Returns whether the sender sleeps, so that the caller must wake it now. The caller asks after it took
    /// frames.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.sender_waits)
    }

    /// Returns whether this side may sleep until it is woken, because the ring has no frame. The caller must
    /// discard old wake-ups before, not after.
    pub fn prepare_wait(&mut self) -> Result<bool, RingError> {
        self.frames.raise(self.words.words());
        self.looks_again()
    }

    /// Prepares the sleep of a thread on the word `receiver_dozes`. Returns whether the thread may sleep,
    /// because the ring has no frame.
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

    /// Returns the length of the frame at `head`. The length is read once and checked against the limits.
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
        // The length is at most `max`, which is a `usize`.
        Ok(words as usize)
    }
}

/// Checks that the peer's index can have advanced from `was` to `now`.
fn check_advance(ring: &'static str, was: u64, now: u64, limit: u64) -> Result<(), RingError> {
    if now < was {
        return Err(RingError::WentBack { ring, was, now });
    }
    if now > limit {
        return Err(RingError::Beyond { ring, now, limit });
    }
    Ok(())
}
