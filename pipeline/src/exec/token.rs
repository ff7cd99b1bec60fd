//! The splits that an element belongs to, and the end of each split: its source is read to the end, and the
//! last element from it was handed out or dropped.
//!
//! Every element carries marks, each a share of its split's token. The token is one reference count:
//! whichever operation lets go of the last share finishes the split, whatever chain of operations lies
//! between. Nothing here knows operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

/// The marks of one element: none when nothing is split, one normally, several for a batch across splits.
pub type Marks = SmallVec<[Mark; 1]>;

/// A share of a split: the positions within it that an element stands for.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The split.
    pub token: Arc<SplitToken>,
    /// The first position.
    pub from: u64,
    /// One past the last position.
    pub upto: u64,
}

/// A split being read. Finished when dropped, unless it was abandoned.
#[derive(Debug)]
pub struct SplitToken {
    lease: u64,
    attempt: u32,
    abandoned: AtomicBool,
    ledger: Arc<Ledger>,
}

/// A split all of whose elements were handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FinishedSplit {
    /// The lease.
    pub lease: u64,
    /// The attempt under which it was leased.
    pub attempt: u32,
    /// How many elements the executor had handed out by then.
    pub upto: u64,
}

/// Finished splits on their way to the last stage. There are at most as many as are leased to the task.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How many wait: lets the last stage look without taking the lock.
    waiting: AtomicUsize,
    finished: Mutex<Vec<(u64, u32)>>,
    /// Whether elements that fail may be left out on purpose, so that a split is read without them.
    forgives: AtomicBool,
}

impl SplitToken {
    /// The token of a split just leased.
    pub fn new(lease: u64, attempt: u32, ledger: &Arc<Ledger>) -> Arc<SplitToken> {
        let abandoned = AtomicBool::new(false);
        Arc::new(SplitToken {
            lease,
            attempt,
            abandoned,
            ledger: Arc::clone(ledger),
        })
    }

    /// The lease of the split.
    pub fn lease(&self) -> u64 {
        self.lease
    }

    /// The attempt under which it was leased.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Keeps the split from ever counting as finished: an element of it was lost.
    pub fn abandon(&self) {
        // Relaxed: the reference count orders it before the drop that reads it.
        let forgives = self.ledger.forgives.load(Ordering::Relaxed);
        self.abandoned.store(!forgives, Ordering::Relaxed);
    }
}

impl Drop for SplitToken {
    fn drop(&mut self) {
        if !*self.abandoned.get_mut() {
            let mut finished = self.ledger.finished.lock();
            finished.push((self.lease, self.attempt));
            // Release pairs with the acquire in `drain`.
            self.ledger.waiting.store(finished.len(), Ordering::Release);
        }
    }
}

impl Ledger {
    /// Lets splits finish although elements of them failed: for a dataset that ignores errors. Those that it
    /// does not ignore end it as a whole.
    pub(crate) fn forgive(&self) {
        self.forgives.store(true, Ordering::Relaxed);
    }

    /// Moves what finished since the last call to `into`, as finished with the first `upto` elements.
    pub fn drain(&self, upto: u64, into: &mut Vec<FinishedSplit>) {
        // Acquire pairs with the release in `SplitToken::drop`.
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut finished = self.finished.lock();
        self.waiting.store(0, Ordering::Relaxed);
        into.extend(
            finished
                .drain(..)
                .map(|(lease, attempt)| FinishedSplit { lease, attempt, upto }),
        );
    }
}

/// Adds the marks of another element to those of a batch: one entry a split, which spans all its positions.
/// Where positions are aligned the span is exact.
pub(crate) fn merge(into: &mut Marks, marks: Marks) {
    for mark in marks {
        let mut recent = into.iter_mut().rev().take(RECENT_SPLITS);
        match recent.find(|known| Arc::ptr_eq(&known.token, &mark.token)) {
            Some(known) => {
                known.from = known.from.min(mark.from);
                known.upto = known.upto.max(mark.upto);
            }
            None => into.push(mark),
        }
    }
}

/// How far back a batch looks for a split it has seen: bounds the work for batches of thousands of tiny
/// splits. A split seen longer ago gets a second entry.
const RECENT_SPLITS: usize = 64;

/// Abandons the splits of an element that is lost.
pub(crate) fn abandon(marks: &Marks) {
    marks.iter().for_each(|mark| mark.token.abandon());
}
