//! The measurements of the maps of one pipeline, and the times at which they are evaluated. The pool thread
//! that finishes a call evaluates them if the last evaluation is long ago. No thread waits for an evaluation,
//! and an idle pipeline makes none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::threads::{Load, shares};

/// The time between two evaluations: hundreds of calls of a map that needs several threads.
const INTERVAL: Duration = Duration::from_millis(50);

/// A tuner that chooses the number of threads for each map of one pipeline.
#[derive(Debug)]
pub(crate) struct Tuner {
    /// The number of threads for all maps together.
    budget: u32,
    looks: Mutex<Looks>,
}

#[derive(Debug)]
struct Looks {
    last: Instant,
    knobs: Vec<Weak<Knob>>,
}

/// One map whose number of threads is chosen. No other memory access depends on the order of its counts, so
/// every access is relaxed.
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

    /// Returns the knob of a map that begins with all threads of the budget.
    pub(crate) fn knob(&self) -> Arc<Knob> {
        let knob = Arc::new(Knob {
            threads: AtomicU32::new(self.budget),
            threads_max: self.budget,
            busy_ns: AtomicU64::new(0),
        });
        let mut looks = self.looks.lock();
        // Bodies of functions are opened and closed often, so knobs that were dropped are removed.
        looks.knobs.retain(|known| known.strong_count() > 0);
        looks.knobs.push(Arc::downgrade(&knob));
        knob
    }

    /// Records a call of `knob`'s map that took from `begun` until now.
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
                tracing::trace!(before, threads, "the number of threads of a map has changed");
            }
        }
    }
}

impl Knob {
    /// Returns the current number of threads.
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
