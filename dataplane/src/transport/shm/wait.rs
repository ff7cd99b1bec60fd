//! Flags of sleeping threads: one for each thing that a side may wait for, so that the other makes a system
//! call only then.
//!
//! Owns the order of steps that loses no wake-up (D10.3). Refuses to know how one sleeps: the bell of a task
//! is whatever keeps a ring until it is heard, such as a socket; a thread sleeps at its flag itself, as long
//! as it is raised. So each has a flag of its own: a late waker may lower one that was raised again, which
//! the thread to be woken then notices.
//!
//! The sleeper raises the flag, fences, and looks once more for what it wants. The waker publishes, fences,
//! and looks at the flag. The two fences are partners: at least one of the two sees the other. The sleeper
//! empties its bell before it raises the flag, never between that and its sleep.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::Relaxed;

use super::words::Word;

/// The value of a raised flag; every value but 0 counts as raised.
pub(super) const RAISED: u64 = 1;

/// The sleeper's side of a flag. The flag is a hint to the peer, which may do with it what it likes: one that
/// lowers it keeps only itself from being heard, one that raises it pays for the wake-ups.
#[derive(Debug)]
pub(super) struct WaitFlag {
    at: usize,
    is_raised: bool,
}

impl WaitFlag {
    pub(super) fn new(at: usize) -> Self {
        Self { at, is_raised: false }
    }

    /// Raises the flag; then the caller looks again.
    pub(super) fn raise<W: Word>(&mut self, words: &[W]) {
        self.is_raised = true;
        words[self.at].store(RAISED, Relaxed);
        W::fence();
    }

    /// Notes that this side sleeps no more, so that the peer need not ring.
    #[inline]
    pub(super) fn lower<W: Word>(&mut self, words: &[W]) {
        if std::mem::take(&mut self.is_raised) {
            words[self.at].store(0, Relaxed);
        }
    }
}

/// Returns whether somebody sleeps behind the flag at `at`, whom the caller then has to wake. Call after
/// publishing.
#[inline]
pub(super) fn needs_wake<W: Word>(words: &[W], at: usize) -> bool {
    let [needs_wake] = need_wake(words, [at]);
    needs_wake
}

/// Checks several flags at once, each as [`need_wake`] would.
#[inline]
pub(super) fn need_wake<W: Word, const N: usize>(words: &[W], flags: [usize; N]) -> [bool; N] {
    W::fence();
    flags.map(|at| {
        // Looked at before it is written, so that the line stays shared while nobody sleeps.
        let is_raised = words[at].load(Relaxed) != 0;
        if is_raised {
            // Should this hit a flag that was raised since, its sleeper looked behind the caller's fence, and
            // saw what was published.
            words[at].store(0, Relaxed);
        }
        is_raised
    })
}
