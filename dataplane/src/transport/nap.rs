//! Lets a thread sleep until a link has something for the thread, or until another thread of the process
//! wakes it.
//!
//! The module owns the sleep only; the link provides the data that the thread waits for. A lock of the caller
//! guards the state of the process. The caller calls [`Nap::begin`] and [`Nap::wake`] under that lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::ClockId;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::Timespec;

use super::Doorbell;

/// Maximum number of doorbells that a thread can sleep at. The kernel accepts 128 futexes, and one futex is
/// the thread's own word.
const DOORBELLS_MAX: usize = 127;

/// The value of the thread's own word while the thread sleeps.
const NAPPING: u32 = 1;

/// The place where one thread sleeps.
#[derive(Debug, Default)]
pub struct Nap {
    word: AtomicU32,
}

impl Nap {
    /// Returns whether the kernel can wait at several places. Linux can from version 5.16 on, unless a filter
    /// forbids the system call.
    pub fn is_supported() -> bool {
        static SUPPORTED: OnceLock<bool> = OnceLock::new();
        *SUPPORTED.get_or_init(|| {
            let word = AtomicU32::new(0);
            let other = waiter(&word, u64::from(NAPPING), WaitFlags::PRIVATE);
            // The call returns at once, because the word holds another value.
            let refused = futex::waitv(&[other], WaitvFlags::empty(), None, ClockId::Monotonic);
            refused == Err(Errno::AGAIN)
        })
    }

    /// Marks the thread as about to sleep, so that [`Nap::wake`] takes effect. The caller must hold the lock
    /// of the awaited state and must have checked that state.
    pub fn begin(&self) {
        self.word.store(NAPPING, Ordering::Relaxed);
    }

    /// Wakes the sleeping thread. The caller must hold the lock of the awaited state. The call is cheap while
    /// no thread sleeps.
    pub fn wake(&self) {
        if self.word.load(Ordering::Relaxed) == NAPPING && self.word.swap(0, Ordering::Relaxed) == NAPPING {
            // The only possible error is an invalid address, which cannot occur here.
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
    }

    /// Returns whether a thread sleeps, or is about to sleep.
    #[cfg(test)]
    fn is_napping(&self) -> bool {
        self.word.load(Ordering::Relaxed) == NAPPING
    }

    /// Sleeps until another thread wakes this thread, a link rings one of the doorbells, or `timeout` has
    /// passed. The sleep may end earlier. Only the first 127 doorbells are used.
    pub fn sleep(&self, doorbells: &[Doorbell], timeout: Duration) {
        let own = waiter(&self.word, u64::from(NAPPING), WaitFlags::PRIVATE);
        let others = doorbells.iter().take(DOORBELLS_MAX);
        let others = others.map(|bell| waiter(bell.futex(), bell.asleep(), WaitFlags::empty()));
        let waiters: smallvec::SmallVec<[Wait; 8]> = std::iter::once(own).chain(others).collect();
        // The result is ignored, because the caller checks for data in any case.
        let _ = futex::waitv(
            &waiters,
            WaitvFlags::empty(),
            Some(&in_future(timeout)),
            ClockId::Monotonic,
        );
        self.word.store(0, Ordering::Relaxed);
    }

    /// Cancels the sleep that the thread began.
    pub fn give_up(&self) {
        self.word.store(0, Ordering::Relaxed);
    }
}

fn waiter(word: &AtomicU32, value: u64, flags: WaitFlags) -> Wait {
    let mut wait = Wait::new();
    wait.val = value;
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32 | flags;
    wait
}

/// Returns the instant of the monotonic clock at which `timeout` has passed.
fn in_future(timeout: Duration) -> Timespec {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec {
        tv_sec: i32::MAX.into(),
        tv_nsec: 0,
    });
    now + timeout
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use parking_lot::Mutex;

    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(60);

    #[test]
    fn no_wake_up_is_lost_whenever_it_comes() {
        if !Nap::is_supported() {
            return;
        }
        let (nap, count) = (Arc::new(Nap::default()), Arc::new(Mutex::new(0)));
        let waker = {
            let (nap, count) = (nap.clone(), count.clone());
            std::thread::spawn(move || {
                for _ in 0..10_000 {
                    let mut count = count.lock();
                    *count += 1;
                    nap.wake();
                }
            })
        };
        let mut seen = 0;
        while seen < 10_000 {
            {
                let count = count.lock();
                if *count > seen {
                    seen = *count;
                    continue;
                }
                nap.begin();
            }
            let since = Instant::now();
            nap.sleep(&[], WATCHDOG);
            assert!(
                since.elapsed() < WATCHDOG,
                "the thread saw {seen} increments, and no later increment woke it"
            );
        }
        waker.join().unwrap();
    }

    #[test]
    fn a_nap_ends_by_itself() {
        if !Nap::is_supported() {
            return;
        }
        let nap = Nap::default();
        nap.begin();
        assert!(nap.is_napping());
        nap.sleep(&[], Duration::from_millis(1));
        assert!(!nap.is_napping());
    }
}
