//! The measurements of the maps of one pipeline, and when they are looked at: by the thread of the pool that
//! finishes a call when the last look is long ago. So nobody waits for a look, and none is made where nothing
//! happens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::threads::{Load, shares};

/// The time between two looks: hundreds of calls of what is worth a thread.
const INTERVAL: Duration = Duration::from_millis(50);

/// Chooses the threads of the maps of one pipeline.
#[derive(Debug)]
pub(crate) struct Tuner {
    /// Threads for all of them.
    budget: u32,
    looks: Mutex<Looks>,
}

#[derive(Debug)]
struct Looks {
    last: Instant,
    knobs: Vec<Weak<Knob>>,
}

/// One map whose threads are chosen. Nothing is ordered by its counts, so that every access is relaxed.
#[derive(Debug)]
pub(crate) struct Knob {
    threads: AtomicU32,
    threads_max: u32,
    busy_ns: AtomicU64,
}

impl Tuner {
    pub(crate) fn new(budget: usize) -> Tuner {
        Tuner {
            budget: u32::try_from(budget).unwrap_or(u32::MAX).max(1),
            looks: Mutex::new(Looks {
                last: Instant::now(),
                knobs: Vec::new(),
            }),
        }
    }

    /// A map that begins with all threads there are.
    pub(crate) fn knob(&self) -> Arc<Knob> {
        let knob = Arc::new(Knob {
            threads: AtomicU32::new(self.budget),
            threads_max: self.budget,
            busy_ns: AtomicU64::new(0),
        });
        let mut looks = self.looks.lock();
        // Bodies of functions are opened and closed all the time: those that are gone make room.
        looks.knobs.retain(|known| known.strong_count() > 0);
        looks.knobs.push(Arc::downgrade(&knob));
        knob
    }

    /// A call of `knob`'s map took from `begun` until now.
    pub(crate) fn note(&self, knob: &Knob, begun: Instant) {
        let now = Instant::now();
        let took = now.saturating_duration_since(begun);
        knob.busy_ns.fetch_add(nanoseconds(took), Ordering::Relaxed);
        if let Some(mut looks) = self.looks.try_lock()
            && now.saturating_duration_since(looks.last) >= INTERVAL
        {
            let interval = now.saturating_duration_since(looks.last);
            looks.last = now;
            self.look(&looks.knobs, interval);
        }
    }

    fn look(&self, knobs: &[Weak<Knob>], interval: Duration) {
        let knobs: Vec<Arc<Knob>> = knobs.iter().filter_map(Weak::upgrade).collect();
        let loads: Vec<Load> = knobs
            .iter()
            .map(|knob| Load {
                busy_ns: knob.busy_ns.swap(0, Ordering::Relaxed),
                threads_max: knob.threads_max,
            })
            .collect();
        let shares = shares(&loads, nanoseconds(interval), self.budget);
        for (knob, threads) in knobs.iter().zip(shares) {
            let before = knob.threads.swap(threads, Ordering::Relaxed);
            if before != threads {
                tracing::trace!(before, threads, "the threads of a map");
            }
        }
    }
}

impl Knob {
    /// The threads it has now.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed) as usize
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_move_to_the_busier_map() {
        let tuner = Tuner::new(8);
        drop(tuner.knob());
        let (fast, slow) = (tuner.knob(), tuner.knob());
        assert_eq!((fast.threads(), slow.threads()), (8, 8));
        fast.busy_ns.store(10_000_000, Ordering::Relaxed);
        slow.busy_ns.store(300_000_000, Ordering::Relaxed);
        tuner.look(&tuner.looks.lock().knobs, 2 * INTERVAL);
        assert_eq!((fast.threads(), slow.threads()), (1, 6));
        assert_eq!(tuner.looks.lock().knobs.len(), 2);
    }

    #[test]
    fn a_due_call_takes_the_look() {
        let tuner = Tuner::new(8);
        let knob = tuner.knob();
        let now = Instant::now();
        tuner.looks.lock().last = now.checked_sub(2 * INTERVAL).unwrap();
        tuner.note(&knob, now);
        assert_eq!(knob.busy_ns.load(Ordering::Relaxed), 0, "it was looked at");
    }
}
