//! The splits that an element stands for, and the end of each split. A split ends when its source has been
//! read to the end of the split and its last element was handed out or dropped.
//!
//! Every element carries marks; each mark is a share of a split's token. The token is a reference count: the
//! operation that drops the last share finishes the split. This module does not know the operations in
//! between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

/// The marks of one element. An element has no mark if no source is split, normally one mark, and several
/// marks if it is a batch across splits.
pub type Marks = SmallVec<[Mark; 1]>;

/// A share of a split: the positions within the split that an element stands for.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The token of the split.
    pub token: Arc<SplitToken>,
    /// The first position that the element stands for.
    pub from: u64,
    /// The position after the last position that the element stands for.
    pub upto: u64,
}

/// The token of a split that is being read. Dropping the token finishes the split, unless the split was
/// abandoned.
#[derive(Debug)]
pub struct SplitToken {
    lease: u64,
    attempt: u32,
    abandoned: AtomicBool,
    ledger: Arc<Ledger>,
}

/// A split whose elements were all handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FinishedSplit {
    /// The lease of the split.
    pub lease: u64,
    /// The attempt number under which the split was leased.
    pub attempt: u32,
    /// The number of elements that the executor had handed out when the split finished.
    pub upto: u64,
}

/// The finished splits on their way to the last stage. The ledger holds at most as many splits as are leased
/// to the task.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of finished splits that wait. The last stage reads the number without taking the lock.
    waiting: AtomicUsize,
    finished: Mutex<Vec<(u64, u32)>>,
    /// Whether elements that fail may be left out on purpose, so that their split still counts as finished.
    forgives: AtomicBool,
}

impl SplitToken {
    /// Returns the token of a split that was just leased.
    pub fn new(lease: u64, attempt: u32, ledger: &Arc<Ledger>) -> Arc<SplitToken> {
        let abandoned = AtomicBool::new(false);
        Arc::new(SplitToken {
            lease,
            attempt,
            abandoned,
            ledger: Arc::clone(ledger),
        })
    }

    /// Returns the lease of the split.
    pub fn lease(&self) -> u64 {
        self.lease
    }

    /// Returns the attempt number under which the split was leased.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Keeps the split from ever counting as finished, because one of its elements was lost.
    pub fn abandon(&self) {
        // Relaxed: the reference count orders this store before the drop that reads it.
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
    /// Lets splits finish although some of their elements failed, for a dataset that ignores errors. An error
    /// that the dataset does not ignore ends the whole dataset.
    pub(crate) fn forgive(&self) {
        self.forgives.store(true, Ordering::Relaxed);
    }

    /// Moves the splits that finished since the last call to `into`, and states that they finished after the
    /// first `upto` elements.
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

/// Adds the marks of another element to the marks of a batch. Each split gets one entry, which spans all its
/// positions. If positions are aligned, the span is exact.
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

/// Number of recent entries in which a batch looks for a known split. The limit bounds the work for batches
/// of thousands of tiny splits. A split outside of the limit gets a second entry.
const RECENT_SPLITS: usize = 64;

/// Abandons the splits of an element that was lost.
pub(crate) fn abandon(marks: &Marks) {
    marks.iter().for_each(|mark| mark.token.abandon());
}
