//! How a thread sleeps until one of several links has something for it, or somebody in its own process.
//!
//! Owns the sleep. Refuses to know what is waited for: the link says what it brings. A lock of the caller's
//! guards what the process has; under it, the caller begins to nap and is woken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::ClockId;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::Timespec;

use super::Doorbell;

/// Doorbells that one thread can sleep at: the kernel takes 128 futexes, one of which is its own.
const DOORBELLS_MAX: usize = 127;

/// The value of the own word while a thread sleeps.
const NAPPING: u32 = 1;

/// The place where one thread sleeps.
#[derive(Debug, Default)]
pub struct Nap {
    word: AtomicU32,
}

impl Nap {
    /// Returns whether the kernel can wait at several places: Linux can from 5.16 on, where no filter forbids
    /// it.
    pub fn is_supported() -> bool {
        static SUPPORTED: OnceLock<bool> = OnceLock::new();
        *SUPPORTED.get_or_init(|| {
            let word = AtomicU32::new(0);
            let other = waiter(&word, u64::from(NAPPING), WaitFlags::PRIVATE);
            // It would not sleep, because the word holds something else.
            let refused = futex::waitv(&[other], WaitvFlags::empty(), None, ClockId::Monotonic);
            refused == Err(Errno::AGAIN)
        })
    }

    /// From now on [`Nap::wake`] is heard. Call it under the lock of what is waited for, having looked for
    /// it.
    pub fn begin(&self) {
        self.word.store(NAPPING, Ordering::Relaxed);
    }

    /// There is something: call it under that lock. Costs nothing while nobody naps.
    pub fn wake(&self) {
        if self.word.load(Ordering::Relaxed) == NAPPING && self.word.swap(0, Ordering::Relaxed) == NAPPING {
            // An error would mean that the address is none.
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
    }

    /// Returns whether a thread naps, or is about to.
    #[cfg(test)]
    fn is_napping(&self) -> bool {
        self.word.load(Ordering::Relaxed) == NAPPING
    }

    /// Sleeps until it is woken, a link rings one of the doorbells (127 of them at most are listened to), or
    /// `timeout` has passed; perhaps for less.
    pub fn sleep(&self, doorbells: &[Doorbell], timeout: Duration) {
        let own = waiter(&self.word, u64::from(NAPPING), WaitFlags::PRIVATE);
        let others = doorbells.iter().take(DOORBELLS_MAX);
        let others = others.map(|bell| waiter(bell.futex(), bell.asleep(), WaitFlags::empty()));
        let waiters: smallvec::SmallVec<[Wait; 8]> = std::iter::once(own).chain(others).collect();
        // Whatever it says, the caller looks again.
        let _ = futex::waitv(
            &waiters,
            WaitvFlags::empty(),
            Some(&in_future(timeout)),
            ClockId::Monotonic,
        );
        self.word.store(0, Ordering::Relaxed);
    }

    /// The thread that began to nap does not after all.
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

/// The instant of the monotonic clock that comes after so much time.
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
                "{seen} were seen, and nobody woke it for more"
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
