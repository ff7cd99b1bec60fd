//! The flags of sleeping threads and tasks. Each reason for waiting has a flag, so that the other side makes
//! a system call only while somebody sleeps.
//!
//! The module owns the order of steps that loses no wake-up (D10.3). The way of sleeping is unknown to it. A
//! task sleeps until a wake-up that is stored, for example a datagram in a socket. A thread sleeps at its
//! flag itself, as long as the flag is raised.
//!
//! Tasks and threads have separate flags. A late waker may lower a flag that was raised again; a thread then
//! notices that its flag is lowered.
//!
//! The sleeper raises the flag, fences, and looks once more for the awaited data. The waker publishes the
//! data, fences, and reads the flag. The two fences are partners: at least one side sees the other's write.
//! The sleeper discards old wake-ups before it raises the flag, never between the flag and its sleep.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::Relaxed;

use super::words::Word;

/// The value of a raised flag. Every value except 0 counts as raised.
pub(super) const RAISED: u64 = 1;

/// The sleeper's side of a flag. The flag is only a hint, because the peer can write any value. A peer that
/// lowers the flag delays only its own messages, and a peer that raises the flag pays for the wake-ups.
#[derive(Debug)]
pub(super) struct WaitFlag {
    at: usize,
    is_raised: bool,
}

impl WaitFlag {
    pub(super) fn new(at: usize) -> Self {
        Self { at, is_raised: false }
    }

    /// Raises the flag. After raising the flag, the caller must look again for the awaited data.
    pub(super) fn raise<W: Word>(&mut self, words: &[W]) {
        self.is_raised = true;
        words[self.at].store(RAISED, Relaxed);
        W::fence();
    }

    /// Lowers the flag after the sleep, so that the peer need not wake this side.
    #[inline]
    pub(super) fn lower<W: Word>(&mut self, words: &[W]) {
        if std::mem::take(&mut self.is_raised) {
            words[self.at].store(0, Relaxed);
        }
    }
}

/// Returns whether a sleeper waits at the flag `at`, which the caller must then wake. The caller asks after
/// it published the data.
#[inline]
pub(super) fn needs_wake<W: Word>(words: &[W], at: usize) -> bool {
    let [needs_wake] = need_wake(words, [at]);
    needs_wake
}

/// Checks several flags at once and lowers the raised ones. Returns for each flag whether its sleeper must be
/// woken.
#[inline]
pub(super) fn need_wake<W: Word, const N: usize>(words: &[W], flags: [usize; N]) -> [bool; N] {
    W::fence();
    flags.map(|at| {
        // The flag is read before it is written, so that the cache line stays shared while nobody sleeps.
        let is_raised = words[at].load(Relaxed) != 0;
        if is_raised {
            // The store may lower a flag that was raised meanwhile. A sleeper that raised the flag meanwhile
            // looked again after the caller's fence, and saw the published data.
            words[at].store(0, Relaxed);
        }
        is_raised
    })
}
