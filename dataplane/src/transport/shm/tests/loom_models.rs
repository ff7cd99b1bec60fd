//! Loom's models of the rings, with small sizes. Loom runs every order in which two or three threads can take
//! their steps under the memory model. `ci/full` runs the models.
//!
//! The models run the production code over Loom's atomics. A lost wake-up ends as a deadlock, which Loom
//! reports. Loom cannot show a load that sees a later store; the orderings of a receiver's index exclude that
//! case.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::transport::shm::layout::ControlLayout;
use crate::transport::shm::leases::{LeaseNumber, Leases};
use crate::transport::shm::returns::{ReturnReceiver, ReturnSender};
use crate::transport::shm::ring::{RingReceiver, RingSender};
use crate::transport::shm::wait::RAISED;

/// A wake-up that is stored until a thread waits for it, like an eventfd.
#[derive(Debug)]
struct Bell {
    is_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            is_rung: Mutex::new(false),
            rings: Condvar::new(),
        })
    }

    fn ring(&self) {
        *self.is_rung.lock().expect("no holder panics") = true;
        self.rings.notify_one();
    }

    /// Waits for a ring and consumes it, so that the bell is silent before the next sleep.
    fn hear(&self) {
        let mut is_rung = self.is_rung.lock().expect("no holder panics");
        while !*is_rung {
            is_rung = self.rings.wait(is_rung).expect("no holder panics");
        }
        *is_rung = false;
    }
}

fn area(layout: ControlLayout) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..layout.words()).map(|_| AtomicU64::new(0)).collect())
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(model);
}

fn explore_up_to(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Returns the `count`th frame, of 1 or 2 words.
fn frame(count: u64) -> Vec<u64> {
    vec![count + 1; 1 + count as usize % 2]
}

/// Explores exhaustively a ring of 4 words that wraps around, with 3 frames of 1 and 2 words. The receiver
/// polls as often as Loom allows.
#[test]
fn frames_come_out_whole_and_in_order() {
    explore(|| {
        let layout = ControlLayout::new(4, 2, 2);
        let words = area(layout);
        let sending = words.clone();
        let sends = thread::spawn(move || {
            let mut sender = RingSender::new(sending, layout.down);
            for count in 0..3 {
                while !sender.try_push(&frame(count)).expect("an honest peer") {
                    thread::yield_now();
                }
            }
        });
        let mut receiver = RingReceiver::new(words, layout.down);
        let mut found = Vec::new();
        for count in 0..3 {
            while !receiver.pop(&mut found).expect("an honest peer") {
                thread::yield_now();
            }
            assert_eq!(found, frame(count));
        }
        assert_eq!(receiver.pop(&mut found), Ok(false));
        sends.join().expect("it does not panic");
    });
}

/// Explores exhaustively a receiver that sleeps whenever it finds no frame, for each of 2 frames. This model
/// is the longest, about a minute.
#[test]
fn a_receiver_that_sleeps_is_woken() {
    explore(|| {
        let layout = ControlLayout::new(8, 2, 2);
        let words = area(layout);
        let bell = Bell::new();
        let (sending, rings) = (words.clone(), bell.clone());
        let sends = thread::spawn(move || {
            let mut sender = RingSender::new(sending, layout.down);
            for count in 0..2 {
                assert_eq!(sender.try_push(&frame(count)), Ok(true));
                if sender.needs_wake() {
                    rings.ring();
                }
            }
        });
        let mut receiver = RingReceiver::new(words, layout.down);
        let mut found = Vec::new();
        for count in 0..2 {
            while !receiver.pop(&mut found).expect("an honest peer") {
                if receiver.prepare_wait().expect("an honest peer") {
                    bell.hear();
                }
            }
            assert_eq!(found, frame(count));
        }
        sends.join().expect("it does not panic");
    });
}

/// A model of the kernel's futex, which reads the word under the lock that wakers take.
#[derive(Debug)]
struct Futex {
    lock: Mutex<()>,
    wakes: Condvar,
}

impl Futex {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: Mutex::new(()),
            wakes: Condvar::new(),
        })
    }

    fn wake(&self) {
        let _lock = self.lock.lock().expect("no holder panics");
        self.wakes.notify_all();
    }

    /// Sleeps at the word while its value says that a thread sleeps there.
    fn wait(&self, word: &AtomicU64) {
        let lock = self.lock.lock().expect("no holder panics");
        if word.load(Relaxed) == RAISED {
            drop(self.wakes.wait(lock).expect("no holder panics"));
        }
    }
}

/// Explores orders with at most 3 preemptions. The receiver sleeps as a thread for the first of 2 frames, and
/// as a task for the second. The sender wakes the sleeper that it finds.
#[test]
fn a_sleeping_thread_and_its_task_are_woken() {
    explore_up_to(3, || {
        let layout = ControlLayout::new(8, 2, 2);
        let words = area(layout);
        let (bell, futex) = (Bell::new(), Futex::new());
        let (sending, rings, wakes) = (words.clone(), bell.clone(), futex.clone());
        let sends = thread::spawn(move || {
            let mut sender = RingSender::new(sending, layout.down);
            for count in 0..2 {
                assert_eq!(sender.try_push(&frame(count)), Ok(true));
                let sleepers = sender.sleepers();
                if sleepers.thread {
                    wakes.wake();
                }
                if sleepers.task {
                    rings.ring();
                }
            }
        });
        let mut receiver = RingReceiver::new(words.clone(), layout.down);
        let mut found = Vec::new();
        while !receiver.pop(&mut found).expect("an honest peer") {
            if receiver.prepare_doze().expect("an honest peer") {
                futex.wait(&words[layout.down.receiver_dozes]);
            }
        }
        assert_eq!(found, frame(0));
        while !receiver.pop(&mut found).expect("an honest peer") {
            if receiver.prepare_wait().expect("an honest peer") {
                bell.hear();
            }
        }
        assert_eq!(found, frame(1));
        sends.join().expect("it does not panic");
    });
}

/// Explores exhaustively a sender that sleeps while the ring has no room for the second of 2 frames.
#[test]
fn a_sender_that_sleeps_is_woken() {
    explore(|| {
        let layout = ControlLayout::new(2, 1, 2);
        let words = area(layout);
        let bell = Bell::new();
        let (receiving, rings) = (words.clone(), bell.clone());
        let mut sender = RingSender::new(words, layout.down);
        assert_eq!(sender.try_push(&[1]), Ok(true));
        let receives = thread::spawn(move || {
            let mut receiver = RingReceiver::new(receiving, layout.down);
            let mut found = Vec::new();
            assert_eq!(receiver.pop(&mut found), Ok(true));
            assert_eq!(found, [1]);
            if receiver.needs_wake() {
                rings.ring();
            }
        });
        while !sender.try_push(&[2]).expect("an honest peer") {
            if sender.prepare_wait(1).expect("an honest peer") {
                bell.hear();
            }
        }
        receives.join().expect("it does not panic");
    });
}

/// Explores two threads that return leases, and a worker that sleeps until both leases are back. The model is
/// limited to 4 preemptions, because three sleeping threads have too many orders.
#[test]
fn leases_return_once_and_wake_the_worker() {
    explore_up_to(4, || {
        let layout = ControlLayout::new(2, 1, 2);
        let words = area(layout);
        let bell = Bell::new();
        let mut leases = Leases::new(2);
        let returners: Vec<_> = (0..2)
            .map(|_| {
                let lease = leases.grant((), 0).expect("one is free");
                let (words, bell) = (words.clone(), bell.clone());
                thread::spawn(move || {
                    let sender = ReturnSender::new(words, layout.returns);
                    sender.send(lease);
                    if sender.needs_wake() {
                        bell.ring();
                    }
                })
            })
            .collect();
        let mut receiver = ReturnReceiver::new(words, layout.returns);
        while leases.out() > 0 {
            match receiver.pop() {
                Some(lease) => leases.give_back(lease).expect("one that is out"),
                None if receiver.prepare_wait() => bell.hear(),
                None => {}
            }
        }
        assert_eq!(receiver.pop(), None);
        for returner in returners {
            returner.join().expect("it does not panic");
        }
    });
}

/// Explores exhaustively a return ring of one place. The lease that passes through is granted again after its
/// first return. The worker must see the reader's writes to the lease's memory.
#[test]
fn a_lease_returns_after_its_memorys_last_use() {
    explore(|| {
        let layout = ControlLayout::new(2, 1, 1);
        let words = area(layout);
        let memory = Arc::new(AtomicU64::new(0));
        let (reader, written) = (words.clone(), memory.clone());
        let reads = thread::spawn(move || {
            let mut down = RingReceiver::new(reader.clone(), layout.down);
            let returns = ReturnSender::new(reader, layout.returns);
            for _ in 0..2 {
                let lease = taken(&mut down);
                written.store(lease.word(), Relaxed);
                returns.send(lease);
            }
        });
        let mut down = RingSender::new(words.clone(), layout.down);
        let mut returns = ReturnReceiver::new(words, layout.returns);
        let mut leases = Leases::new(1);
        for _ in 0..2 {
            lend(&mut leases, &mut down);
            let back = returned(&mut returns);
            assert_eq!(memory.load(Relaxed), back.word());
            assert_eq!(leases.give_back(back), Ok(()));
        }
        reads.join().expect("it does not panic");
    });
}

/// Explores exhaustively one thread that returns a lease, is lent another lease and returns it, so that the
/// ring wraps around. Meanwhile a second thread, without any synchronisation, returns a lease that it held
/// from the start.
#[test]
fn a_place_is_not_emptied_over_returns() {
    explore(|| {
        let layout = ControlLayout::new(2, 1, 2);
        let words = area(layout);
        let mut leases = Leases::new(2);
        let (first, kept) = (leases.grant((), 0), leases.grant((), 0));
        let reader = words.clone();
        let reads = thread::spawn(move || {
            let mut down = RingReceiver::new(reader.clone(), layout.down);
            let returns = ReturnSender::new(reader, layout.returns);
            returns.send(first.expect("one is free"));
            returns.send(taken(&mut down));
        });
        let reader = words.clone();
        let keeps = thread::spawn(move || {
            ReturnSender::new(reader, layout.returns).send(kept.expect("one is free"));
        });
        let mut down = RingSender::new(words.clone(), layout.down);
        let mut returns = ReturnReceiver::new(words, layout.returns);
        let back = returned(&mut returns);
        assert_eq!(leases.give_back(back), Ok(()));
        lend(&mut leases, &mut down);
        reads.join().expect("it does not panic");
        keeps.join().expect("it does not panic");
        for _ in 0..2 {
            let back = returns.pop().expect("all were returned");
            assert_eq!(leases.give_back(back), Ok(()));
        }
        assert_eq!((returns.pop(), leases.out()), (None, 0));
    });
}

fn lend(leases: &mut Leases<()>, down: &mut RingSender<Arc<Vec<AtomicU64>>>) {
    let lease = leases.grant((), 0).expect("one is free");
    while !down.try_push(&[lease.word()]).expect("an honest peer") {
        thread::yield_now();
    }
}

fn taken(down: &mut RingReceiver<Arc<Vec<AtomicU64>>>) -> LeaseNumber {
    let mut found = Vec::new();
    while !down.pop(&mut found).expect("an honest peer") {
        thread::yield_now();
    }
    LeaseNumber::from_word(found[0]).expect("a number that was granted")
}

fn returned(returns: &mut ReturnReceiver<Arc<Vec<AtomicU64>>>) -> LeaseNumber {
    loop {
        match returns.pop() {
            Some(lease) => break lease,
            None => thread::yield_now(),
        }
    }
}
