//! Virtual time, and the futures that run in it: one thread polls the futures in an order that follows from
//! the seed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use millstream_testkit::Chance;
use parking_lot::Mutex;

use super::world::Pid;

/// Maximum number of polls at one moment. More polls mean that futures wake each other in an endless loop.
const POLLS_MAX: usize = 100_000;

/// The times at which futures must be woken.
#[derive(Debug, Clone, Default)]
pub(super) struct Alarms(Arc<Mutex<AlarmsState>>);

#[derive(Debug, Default)]
struct AlarmsState {
    now: Duration,
    next: u64,
    due: BTreeMap<(Duration, u64), Waker>,
}

impl Alarms {
    pub(super) fn now(&self) -> Duration {
        self.0.lock().now
    }

    pub(super) fn set(&self, at: Duration, waker: Waker) {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.due.insert((at, number), waker);
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.0.lock().due.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn pass_to(&self, now: Duration) {
        let mut state = self.0.lock();
        state.now = now;
        while let Some(alarm) = state.due.first_entry()
            && alarm.key().0 <= now
        {
            alarm.remove().wake();
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Running {
    owner: Pid,
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

/// The futures of all processes.
#[derive(Default)]
pub(super) struct Executor {
    running: BTreeMap<u64, Running>,
    next: u64,
}

impl Executor {
    pub(super) fn spawn(&mut self, owner: Pid, future: impl Future<Output = ()> + 'static) {
        let running = Running {
            owner,
            // This executor polls the futures, so tokio's cooperative budget must not interfere.
            future: Box::pin(tokio::task::unconstrained(future)),
            woken: Arc::new(Woken(AtomicBool::new(true))),
        };
        self.running.insert(self.next, running);
        self.next += 1;
    }

    /// Drops the futures of a process, as the death of the process does.
    pub(super) fn kill(&mut self, owner: Pid) {
        self.running.retain(|_, running| running.owner != owner);
    }

    /// Polls the woken futures in random order until none is woken. Futures of a paused process stay woken.
    pub(super) fn run(&mut self, chance: &mut Chance, is_asleep: impl Fn(Pid) -> bool) {
        for _ in 0..POLLS_MAX {
            let ready = self
                .running
                .iter()
                .filter(|(_, running)| running.woken.0.load(Ordering::Relaxed) && !is_asleep(running.owner));
            let ready: Vec<u64> = ready.map(|(id, _)| *id).collect();
            let Some(id) = chance.pick(&ready) else {
                return;
            };
            let Some(running) = self.running.get_mut(&id) else {
                return;
            };
            running.woken.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(running.woken.clone());
            if let Poll::Ready(()) = running.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.running.remove(&id);
            }
        }
        panic!("futures wake each other in an endless loop");
    }
}
