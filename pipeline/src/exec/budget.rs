//! The memory that the buffers of one pipeline may hold together.
//!
//! A prefetching operation takes the bytes of an element before it makes it ([`Budget::try_take`]). It waits
//! where none are left ([`Budget::wait_unless`]), except for an element that another operation waits for:
//! that is always made, or nothing would ever move. What must be held to be of any use, such as the buffer of
//! a shuffle, is [`Kept`]; it fails where it does not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Bytes that the buffers of a pipeline may hold together unless told otherwise: a few batches of pictures at
/// every stage, on a worker that runs several tasks.
pub const BUDGET_BYTES_DEFAULT: usize = 256 << 20;

/// How long a thread that waits for memory waits before it looks again: one of them is woken for each that is
/// given back, and it may be one that needs more.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An element smaller than the budget by this much is not counted while the consumer works on it.
const IN_HAND_SHARE: usize = 1024;

/// A count of buffered bytes with a limit. Clones are the same count.
#[derive(Debug, Clone)]
pub struct Budget {
    count: Arc<Count>,
    limit_bytes: usize,
    /// Share of this pipeline, if several share a limit.
    share: Option<Arc<Share>>,
}

/// The memory that the buffers of several pipelines may hold together. Clones are the same limit.
///
/// What each computes ahead is limited to an even share, which shrinks as pipelines begin and grows as they
/// end. Buffers that must be full to be of use, such as those of shuffles, are limited together. Each
/// pipeline may still make the element that somebody waits for.
#[derive(Debug, Clone)]
pub struct SharedBudget(Arc<Common>);

/// One pipeline's part in a [`SharedBudget`], given back when dropped.
#[derive(Debug)]
struct Share(Arc<Common>);

#[derive(Debug)]
struct Common {
    limit_bytes: usize,
    shares: AtomicUsize,
    kept_bytes: AtomicUsize,
}

/// Bytes counted until dropped.
#[derive(Debug)]
pub struct Charge {
    count: Arc<Count>,
    bytes: usize,
}

/// Bytes of one buffer that computes nothing ahead and that nothing but its end makes smaller. Counted until
/// dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    charge: Charge,
    limit_bytes: usize,
    share: Option<Arc<Share>>,
}

/// Bytes of the element that the consumer works on. Counted until dropped.
#[derive(Debug)]
pub(crate) struct InHand {
    charge: Charge,
    /// Less is not counted: a share of the limit that does not matter.
    least_bytes: usize,
}

/// Bytes held and waiters. A waiter counts itself before it looks at `held_bytes`, and a releasing thread
/// looks for waiters afterwards. Both use one total order, so no waiter is missed.
#[derive(Debug, Default)]
struct Count {
    held_bytes: AtomicUsize,
    /// Those of `held_bytes` that are [`Kept`].
    kept_bytes: AtomicUsize,
    /// Those of `held_bytes` that are [`InHand`].
    in_hand_bytes: AtomicUsize,
    waiters: AtomicUsize,
    /// Held from a waiter's last look until it sleeps.
    looking: Mutex<()>,
    freed: Condvar,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BUDGET_BYTES_DEFAULT)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit_bytes: usize) -> Budget {
        Budget {
            count: Arc::default(),
            limit_bytes,
            share: None,
        }
    }

    /// A new budget of fewer bytes, with the same part in what pipelines share.
    pub(crate) fn reduced(&self, limit_bytes: usize) -> Budget {
        Budget {
            count: Arc::default(),
            limit_bytes,
            share: self.share.clone(),
        }
    }

    /// The limit at present: where pipelines share one, at most an even share of it.
    pub fn limit_bytes(&self) -> usize {
        match &self.share {
            Some(share) => self.limit_bytes.min(share.bytes()),
            None => self.limit_bytes,
        }
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.count.held_bytes.load(Ordering::SeqCst)
    }

    /// Returns whether nothing more should be buffered. A buffer that is empty takes one element all the
    /// same, or nothing would ever move.
    pub fn is_spent(&self) -> bool {
        self.held_bytes() >= self.limit_bytes()
    }

    /// Counts `bytes`.
    pub fn charge(&self, bytes: usize) -> Charge {
        self.count.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        Charge {
            count: Arc::clone(&self.count),
            bytes,
        }
    }

    /// Counts `bytes` if there is room for them, and for as many again: those are for what somebody waits
    /// for. A buffer that `has_some` leaves half of the budget to those that have nothing. Otherwise the
    /// first of many readers would take it all, and the others would stand still.
    pub(crate) fn try_take(&self, bytes: usize, has_some: bool) -> Option<Charge> {
        let fitting = |held| self.fits(bytes, has_some, held).then(|| held + bytes);
        self.count
            .held_bytes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fitting)
            .ok()?;
        Some(Charge {
            count: Arc::clone(&self.count),
            bytes,
        })
    }

    /// Waits until there may be room for `bytes`, until [`Budget::wake`], or for a moment; not at all where
    /// there is room, or where `may_go` says so.
    pub(crate) fn wait_unless(&self, bytes: usize, has_some: bool, may_go: impl Fn() -> bool) {
        let mut looking = self.count.looking.lock();
        self.count.waiters.fetch_add(1, Ordering::SeqCst);
        if !self.fits(bytes, has_some, self.held_bytes()) && !may_go() {
            self.count.freed.wait_for(&mut looking, LOOK_AGAIN);
        }
        self.count.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes all who wait look again, after what they look at has changed.
    pub(crate) fn wake(&self) {
        if self.count.waiters.load(Ordering::SeqCst) > 0 {
            let _looking = self.count.looking.lock();
            self.count.freed.notify_all();
        }
    }

    /// An empty buffer of what is kept.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            charge: self.charge(0),
            limit_bytes: self.limit_bytes,
            share: self.share.clone(),
        }
    }

    /// Nothing in the consumer's hand yet.
    pub(crate) fn in_hand(&self) -> InHand {
        InHand {
            charge: self.charge(0),
            least_bytes: self.limit_bytes / IN_HAND_SHARE,
        }
    }

    /// The first element may go beyond the limit; the first besides the one in the consumer's hand may take
    /// what is left to others. Otherwise large elements would be made only on demand.
    fn fits(&self, bytes: usize, has_some: bool, held: usize) -> bool {
        let (limit_bytes, with_it) = (self.limit_bytes(), held.saturating_add(bytes));
        let left = if has_some { limit_bytes / 2 } else { bytes };
        let is_second = || held == self.count.in_hand_bytes.load(Ordering::SeqCst) && with_it <= limit_bytes;
        with_it.saturating_add(left) <= limit_bytes || held == 0 || is_second()
    }
}

impl SharedBudget {
    /// A limit that pipelines share.
    pub fn new(limit_bytes: usize) -> SharedBudget {
        SharedBudget(Arc::new(Common {
            limit_bytes,
            shares: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
        }))
    }

    /// The budget of one more pipeline, of at most `limit_bytes` itself.
    pub fn share(&self, limit_bytes: usize) -> Budget {
        self.0.shares.fetch_add(1, Ordering::Relaxed);
        Budget {
            share: Some(Arc::new(Share(Arc::clone(&self.0)))),
            ..Budget::new(limit_bytes)
        }
    }
}

impl Share {
    /// An even share of what there is now.
    fn bytes(&self) -> usize {
        // Relaxed: a share that is out of date for a moment is as good.
        self.0.limit_bytes / self.0.shares.load(Ordering::Relaxed).max(1)
    }

    /// Counts bytes that are kept if all that is kept fits then, or they are the first of their buffer.
    fn try_keep(&self, bytes: usize, is_first: bool) -> bool {
        let fitting = |kept: usize| {
            let all = kept.saturating_add(bytes);
            (is_first || all <= self.0.limit_bytes).then_some(all)
        };
        let kept = &self.0.kept_bytes;
        kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting)
            .is_ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Charge {
    /// The bytes it counts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` from now on.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => _ = self.count.held_bytes.fetch_add(more, Ordering::SeqCst),
            None => self.count.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.count.give_back(self.bytes);
    }
}

impl Kept {
    /// Counts `bytes` more if all that is kept is within the limit then, or this buffer was empty.
    pub(crate) fn try_add(&mut self, bytes: usize) -> bool {
        let is_empty = self.charge.bytes == 0;
        let fitting = |kept: usize| {
            let all = kept.saturating_add(bytes);
            (is_empty || all <= self.limit_bytes).then_some(all)
        };
        // Relaxed: a count that orders nothing else.
        let kept = &self.charge.count.kept_bytes;
        if kept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting)
            .is_err()
        {
            return false;
        }
        if let Some(share) = &self.share
            && !share.try_keep(bytes, is_empty)
        {
            kept.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.charge.set(self.charge.bytes.saturating_add(bytes));
        true
    }

    /// Counts `bytes` less.
    pub(crate) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.charge.bytes);
        self.charge.count.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(share) = &self.share {
            share.0.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.charge.set(self.charge.bytes - bytes);
    }

    /// Counts nothing.
    pub(crate) fn clear(&mut self) {
        self.remove(self.charge.bytes);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

impl InHand {
    /// Counts `bytes` in place of what it counted: the next element took the place of the one before.
    #[inline]
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = if bytes < self.least_bytes { 0 } else { bytes };
        if bytes != self.charge.bytes {
            self.change(bytes);
        }
    }

    fn change(&mut self, bytes: usize) {
        let in_hand = &self.charge.count.in_hand_bytes;
        in_hand.fetch_add(bytes, Ordering::SeqCst);
        in_hand.fetch_sub(self.charge.bytes, Ordering::SeqCst);
        self.charge.set(bytes);
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Count {
    fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if bytes > 0 && self.waiters.load(Ordering::SeqCst) > 0 {
            let _looking = self.looking.lock();
            self.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_exceeds_the_limit() {
        let budget = Budget::new(100);
        let first = budget.try_take(150, true).unwrap();
        assert!(budget.try_take(1, false).is_none());
        drop(first);
        let first = budget.try_take(40, false).unwrap();
        assert!(budget.try_take(11, true).is_none(), "half is left to others");
        let more = budget.try_take(10, true).unwrap();
        assert!(budget.try_take(26, false).is_none());
        let last = budget.try_take(25, false).unwrap();
        assert_eq!(budget.held_bytes(), 75);
        drop((first, more, last));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn buffers_share_the_limit_and_hold_one() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (budget.kept(), budget.kept());
        let ahead = budget.charge(90);
        assert!(one.try_add(60), "what is computed ahead makes room");
        assert!(other.try_add(70), "one element");
        assert!(!one.try_add(1) && !other.try_add(1));
        other.remove(70);
        assert!(one.try_add(40) && !one.try_add(1));
        assert_eq!(budget.held_bytes(), 190);
        drop((one, other, ahead));
        assert_eq!(budget.held_bytes(), 0);
        assert!(budget.kept().try_add(100));
    }

    #[test]
    fn pipelines_share_what_they_compute_ahead() {
        let worker = SharedBudget::new(400);
        let one = worker.share(300);
        assert_eq!(one.limit_bytes(), 300, "its own limit is less than all");
        let held = one.try_take(150, false).unwrap();
        let others: Vec<Budget> = (0..3).map(|_| worker.share(300)).collect();
        assert_eq!(one.limit_bytes(), 100);
        assert!(one.is_spent() && one.try_take(1, false).is_none());
        let first = others[0].try_take(500, false).expect("somebody waits for it");
        assert!(others[1].try_take(50, false).is_some() && others[1].try_take(60, true).is_some());
        assert_eq!(one.reduced(60).limit_bytes(), 60);
        drop((others, first, held));
        assert_eq!(one.limit_bytes(), 300);
    }

    #[test]
    fn pipelines_share_what_their_buffers_keep() {
        let worker = SharedBudget::new(100);
        let (one, other) = (worker.share(80), worker.share(80));
        let (mut ours, mut theirs) = (one.kept(), other.kept());
        assert!(
            ours.try_add(40) && ours.try_add(40) && !ours.try_add(1),
            "its own limit"
        );
        assert!(theirs.try_add(30), "one element");
        assert!(!theirs.try_add(1), "110 of 100 are kept");
        ours.remove(20);
        assert!(theirs.try_add(10) && !theirs.try_add(1));
        drop((ours, theirs));
        assert_eq!(worker.0.kept_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_consumers_element_leaves_room_for_another() {
        let budget = Budget::new(4096);
        let mut in_hand = budget.in_hand();
        in_hand.set(3);
        assert_eq!(budget.held_bytes(), 0, "a thousandth");
        in_hand.set(2000);
        let next = budget.try_take(2096, false).expect("the limit holds both");
        assert!(budget.try_take(1, false).is_none());
        drop(next);
        assert!(budget.try_take(2097, false).is_none());
        in_hand.set(1000);
        let ahead = budget
            .try_take(1000, false)
            .expect("as many are left for who waits");
        assert!(budget.try_take(1100, false).is_none());
        drop((in_hand, ahead));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn released_memory_wakes_its_waiters() {
        let budget = Budget::new(10);
        let held = budget.charge(10);
        let waiter = std::thread::spawn(move || {
            loop {
                if let Some(charge) = budget.try_take(5, false) {
                    return charge.bytes();
                }
                budget.wait_unless(5, false, || false);
            }
        });
        drop(held);
        assert_eq!(waiter.join().unwrap(), 5);
    }
}
