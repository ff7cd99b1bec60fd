//! Who sleeps: a flag for each thing that one side may wait for, so that the other makes a system call only then.
//!
//! Owns the order of steps that loses no wake-up (D10.3). Refuses to know how one sleeps: the bell of a task is whatever
//! keeps a ring until it is heard, such as a socket; a thread sleeps at the flag itself, while it has the value that it wrote.
//!
//! The sleeper raises the flag, fences, and looks once more for what it wants. The waker publishes, fences, and looks at
//! the flag. The two fences are partners: at least one of the two sees the other. The sleeper empties its bell before it
//! raises the flag, never between that and its sleep.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::Relaxed;

use super::words::Word;

/// Who sleeps behind a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleeper {
    /// Nobody.
    Nobody,
    /// A task, which its bell wakes.
    Task,
    /// A thread, at the flag.
    Thread,
}

/// What a flag says while a task sleeps behind it; so does anything that says nothing else.
const TASK: u64 = 1;

/// What a flag says while a thread sleeps at it.
pub(super) const THREAD: u64 = 2;

/// The sleeper's side of a flag. The flag is a hint to the peer, which may do with it what it likes: one that lowers it
/// keeps only itself from being heard, one that raises it pays for the wake-ups.
#[derive(Debug)]
pub(super) struct WaitFlag {
    at: usize,
    is_raised: bool,
}

impl WaitFlag {
    pub(super) fn new(at: usize) -> Self {
        Self { at, is_raised: false }
    }

    /// Raises the flag for a task; then the caller looks again.
    pub(super) fn raise<W: Word>(&mut self, words: &[W]) {
        self.raise_to(words, TASK);
    }

    /// The same for a thread.
    pub(super) fn raise_for_thread<W: Word>(&mut self, words: &[W]) {
        self.raise_to(words, THREAD);
    }

    fn raise_to<W: Word>(&mut self, words: &[W], value: u64) {
        self.is_raised = true;
        words[self.at].store(value, Relaxed);
        W::fence();
    }

    /// Nobody sleeps any more: the peer need not ring.
    #[inline]
    pub(super) fn lower<W: Word>(&mut self, words: &[W]) {
        if std::mem::take(&mut self.is_raised) {
            words[self.at].store(0, Relaxed);
        }
    }
}

/// Who sleeps behind the flag at `at`, and is then to be woken by the caller. Call after publishing.
#[inline]
pub(super) fn sleeper<W: Word>(words: &[W], at: usize) -> Sleeper {
    W::fence();
    // Looked at before it is written, so that the line stays shared while nobody sleeps.
    let sleeper = match words[at].load(Relaxed) {
        0 => return Sleeper::Nobody,
        THREAD => Sleeper::Thread,
        _ => Sleeper::Task,
    };
    // Should this hit a flag that was raised since, its sleeper looked behind the caller's fence, and saw what was published.
    words[at].store(0, Relaxed);
    sleeper
}

/// Whether somebody sleeps behind the flag at `at`, whose bell the caller then has to ring. Call after publishing.
#[inline]
pub(super) fn needs_wake<W: Word>(words: &[W], at: usize) -> bool {
    sleeper(words, at) != Sleeper::Nobody
}
