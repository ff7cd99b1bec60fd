//! The memory that the buffers of one pipeline may hold together.
//!
//! A prefetching operation takes the bytes of an element before it makes the element ([`Budget::try_take`]).
//! The operation waits while no bytes are left, unless another operation waits for the element. An element
//! that is waited for is always made, because otherwise the pipeline would stop. A buffer that is useless
//! unless it holds all its elements, such as the buffer of a shuffle, uses [`Kept`]. The operation fails if
//! the elements of such a buffer do not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Default limit on the bytes that all buffers of a pipeline hold together. The limit fits a few batches of
/// pictures at every stage, on a worker that runs several tasks.
pub const BUDGET_BYTES_DEFAULT: usize = 256 << 20;

/// The longest time for which a thread waits for memory before it checks the budget again. Each release of
/// memory wakes one waiting thread, and that thread may need more bytes than were released.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The divisor of the budget below which the consumer's element is not counted: smaller elements are ignored
/// while the consumer works on them.
const IN_HAND_SHARE: usize = 1024;

/// A count of buffered bytes with a limit. Clones share the count.
#[derive(Debug, Clone)]
pub struct Budget {
    count: Arc<Count>,
    limit_bytes: usize,
    /// The pipeline's share of a limit, if several pipelines share a limit.
    share: Option<Arc<Share>>,
}

/// The memory that the buffers of several pipelines may hold together. Clones share the limit.
///
/// The bytes that each pipeline prefetches are limited to an even share, which shrinks as pipelines begin and
/// grows as they end. Buffers that must be full to be useful, such as those of shuffles, have one limit
/// together. Each pipeline may always make an element that an operation waits for.
#[derive(Debug, Clone)]
pub struct SharedBudget(Arc<Common>);

/// One pipeline's part in a [`SharedBudget`]. Dropping it gives the part back.
#[derive(Debug)]
struct Share(Arc<Common>);

#[derive(Debug)]
struct Common {
    limit_bytes: usize,
    shares: AtomicUsize,
    kept_bytes: AtomicUsize,
}

/// A number of bytes that counts in a budget until this value is dropped.
#[derive(Debug)]
pub struct Charge {
    count: Arc<Count>,
    bytes: usize,
}

/// The byte count of a buffer that does not prefetch, and that shrinks only when its contents end. The bytes
/// count until this value is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    charge: Charge,
    limit_bytes: usize,
    share: Option<Arc<Share>>,
}

/// The bytes of the element that the consumer works on. The bytes count until this value is dropped.
#[derive(Debug)]
pub(crate) struct InHand {
    charge: Charge,
    /// The least number of bytes that is counted: smaller elements do not matter to the limit.
    least_bytes: usize,
}

/// The held bytes and the number of waiters. A waiter counts itself before it looks at `held_bytes`, and a
/// releasing thread looks for waiters afterwards. The two accesses have one total order, so no waiter is
/// missed.
#[derive(Debug, Default)]
struct Count {
    held_bytes: AtomicUsize,
    /// The part of `held_bytes` that [`Kept`] values count.
    kept_bytes: AtomicUsize,
    /// The part of `held_bytes` that [`InHand`] values count.
    in_hand_bytes: AtomicUsize,
    waiters: AtomicUsize,
    /// A lock that a waiter holds from its last look at the count until it sleeps.
    looking: Mutex<()>,
    freed: Condvar,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BUDGET_BYTES_DEFAULT)
    }
}

impl Budget {
    /// Returns a budget of `limit_bytes` bytes.
    pub fn new(limit_bytes: usize) -> Budget {
        Budget {
            count: Arc::default(),
            limit_bytes,
            share: None,
        }
    }

    /// Returns a new budget with a smaller limit and the same part in a shared limit.
    pub(crate) fn reduced(&self, limit_bytes: usize) -> Budget {
        Budget {
            count: Arc::default(),
            limit_bytes,
            share: self.share.clone(),
        }
    }

    /// Returns the current limit in bytes. If pipelines share a limit, the result is at most an even share of
    /// the shared limit.
    pub fn limit_bytes(&self) -> usize {
        match &self.share {
            Some(share) => self.limit_bytes.min(share.bytes()),
            None => self.limit_bytes,
        }
    }

    /// Returns the number of bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.count.held_bytes.load(Ordering::SeqCst)
    }

    /// Returns whether buffers should take no more elements. An empty buffer takes one element even then,
    /// because otherwise the pipeline would stop.
    pub fn is_spent(&self) -> bool {
        self.held_bytes() >= self.limit_bytes()
    }

    /// Counts `bytes` and returns their charge.
    pub fn charge(&self, bytes: usize) -> Charge {
        self.count.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        Charge {
            count: Arc::clone(&self.count),
            bytes,
        }
    }

    /// Counts `bytes` if they fit within the limit together with a reserve for elements that an operation
    /// waits for. The reserve has as many bytes again. A buffer that `has_some` elements leaves a reserve of
    /// half the budget to empty buffers. Without the reserve, the first of many readers would take the whole
    /// budget, and the other readers would stop.
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

    /// Blocks until `bytes` may fit, until [`Budget::wake`] is called, or for a few milliseconds. Returns at
    /// once if `bytes` fit, or if `may_go` returns true.
    pub(crate) fn wait_unless(&self, bytes: usize, has_some: bool, may_go: impl Fn() -> bool) {
        let mut looking = self.count.looking.lock();
        self.count.waiters.fetch_add(1, Ordering::SeqCst);
        if !self.fits(bytes, has_some, self.held_bytes()) && !may_go() {
            self.count.freed.wait_for(&mut looking, LOOK_AGAIN);
        }
        self.count.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all waiting threads, so that they check their conditions again.
    pub(crate) fn wake(&self) {
        if self.count.waiters.load(Ordering::SeqCst) > 0 {
            let _looking = self.count.looking.lock();
            self.count.freed.notify_all();
        }
    }

    /// Returns the count of an empty buffer.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            charge: self.charge(0),
            limit_bytes: self.limit_bytes,
            share: self.share.clone(),
        }
    }

    /// Returns a count of 0 bytes for the consumer's element.
    pub(crate) fn in_hand(&self) -> InHand {
        InHand {
            charge: self.charge(0),
            least_bytes: self.limit_bytes / IN_HAND_SHARE,
        }
    }

    /// Returns whether `bytes` fit. The first element may exceed the limit. The first element besides the
    /// consumer's element may use the bytes that are reserved for other buffers. Without this exception,
    /// large elements would be made only on demand.
    fn fits(&self, bytes: usize, has_some: bool, held: usize) -> bool {
        let (limit_bytes, with_it) = (self.limit_bytes(), held.saturating_add(bytes));
        let left = if has_some { limit_bytes / 2 } else { bytes };
        let is_second = || held == self.count.in_hand_bytes.load(Ordering::SeqCst) && with_it <= limit_bytes;
        with_it.saturating_add(left) <= limit_bytes || held == 0 || is_second()
    }
}

impl SharedBudget {
    /// Returns a limit of `limit_bytes` bytes for several pipelines.
    pub fn new(limit_bytes: usize) -> SharedBudget {
        SharedBudget(Arc::new(Common {
            limit_bytes,
            shares: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
        }))
    }

    /// Returns the budget of one more pipeline, which holds at most `limit_bytes` by itself.
    pub fn share(&self, limit_bytes: usize) -> Budget {
        self.0.shares.fetch_add(1, Ordering::Relaxed);
        Budget {
            share: Some(Arc::new(Share(Arc::clone(&self.0)))),
            ..Budget::new(limit_bytes)
        }
    }
}

impl Share {
    /// Returns an even share of the limit for the current number of pipelines.
    fn bytes(&self) -> usize {
        // Relaxed: an outdated share does no harm for a moment.
        self.0.limit_bytes / self.0.shares.load(Ordering::Relaxed).max(1)
    }

    /// Counts `bytes` as kept if all kept bytes then fit within the limit. The first bytes of a buffer always
    /// fit.
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
    /// Returns the counted bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Replaces the counted bytes by `bytes`.
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
    /// Counts `bytes` more if all kept bytes then fit within the limit, or if this buffer was empty. Returns
    /// whether the bytes were counted.
    pub(crate) fn try_add(&mut self, bytes: usize) -> bool {
        let is_empty = self.charge.bytes == 0;
        let fitting = |kept: usize| {
            let all = kept.saturating_add(bytes);
            (is_empty || all <= self.limit_bytes).then_some(all)
        };
        // Relaxed: no other memory access depends on the order of this count.
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

    /// Sets the count to 0.
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
    /// Replaces the counted bytes by `bytes`, because the next element has replaced the previous element.
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
        assert!(one.try_add(60), "prefetched elements make room");
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
        assert_eq!(one.limit_bytes(), 300, "its own limit is below its share");
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
            .expect("a reserve is left for the operation that waits");
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
