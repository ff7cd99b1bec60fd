//! Runs rings and returns (D10.4) between concurrent threads that sleep on bells (D10.3). A lost wake-up
//! stops a test, which then ends at its timeout.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

use crate::transport::shm::layout::ControlLayout;
use crate::transport::shm::leases::Leases;
use crate::transport::shm::returns::{ReturnReceiver, ReturnSender};
use crate::transport::shm::ring::{RingReceiver, RingSender};

/// The timeout of a wait, at least ten times longer than a whole test takes.
const WATCHDOG: Duration = Duration::from_secs(120);

const FRAMES: u64 = 100_000;

/// A wake-up that is stored until a thread waits for it, like an eventfd.
#[derive(Debug, Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.is_rung.lock().expect("no holder panics") = true;
        self.rings.notify_one();
    }

    fn silence(&self) {
        *self.is_rung.lock().expect("no holder panics") = false;
    }

    fn hear(&self) {
        let is_rung = self.is_rung.lock().expect("no holder panics");
        let waited = self
            .rings
            .wait_timeout_while(is_rung, WATCHDOG, |is_rung| !*is_rung);
        let is_over = waited.expect("no holder panics").1.timed_out();
        assert!(!is_over, "a wake-up was lost");
    }
}

fn area(layout: ControlLayout) -> Vec<AtomicU64> {
    (0..layout.words()).map(|_| AtomicU64::new(0)).collect()
}

/// Returns the `count`th frame: 1 to 6 words that no other frame contains.
fn frame(count: u64) -> Vec<u64> {
    (0..1 + count % 6).map(|word| count << 8 | word).collect()
}

#[test]
fn frames_cross_between_sleeping_threads() {
    let layout = ControlLayout::new(16, 6, 2);
    let words = area(layout);
    let (room, frames) = (Bell::default(), Bell::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = RingSender::new(&words, layout.down);
            for count in 0..FRAMES {
                let frame = frame(count);
                while !sender.try_push(&frame).expect("an honest peer") {
                    room.silence();
                    if sender.prepare_wait(frame.len()).expect("an honest peer") {
                        room.hear();
                    }
                }
                if sender.needs_wake() {
                    frames.ring();
                }
            }
        });
        let mut receiver = RingReceiver::new(&words, layout.down);
        let mut found = Vec::with_capacity(6);
        for count in 0..FRAMES {
            while !receiver.pop(&mut found).expect("an honest peer") {
                frames.silence();
                if receiver.prepare_wait().expect("an honest peer") {
                    frames.hear();
                }
            }
            assert_eq!(found, frame(count));
            if receiver.needs_wake() {
                room.ring();
            }
        }
    });
}

#[test]
fn leases_come_back_once_each_from_several_threads() {
    const LEASES: u32 = 8;
    const THREADS: usize = 3;
    let layout = ControlLayout::new(4, 3, LEASES as usize);
    let words = area(layout);
    let bell = Bell::default();
    std::thread::scope(|scope| {
        let handed: Vec<_> = (0..THREADS)
            .map(|_| {
                let (hand, handed) = mpsc::channel();
                let (words, bell) = (&words, &bell);
                scope.spawn(move || {
                    let sender = ReturnSender::new(words, layout.returns);
                    for lease in handed {
                        sender.send(lease);
                        if sender.needs_wake() {
                            bell.ring();
                        }
                    }
                });
                hand
            })
            .collect();
        let mut receiver = ReturnReceiver::new(&words, layout.returns);
        let mut leases = Leases::new(LEASES);
        for count in 0..FRAMES {
            while leases.is_full() {
                match receiver.pop() {
                    Some(lease) => drop(leases.give_back(lease).expect("one that is out")),
                    None => {
                        bell.silence();
                        if receiver.prepare_wait() {
                            bell.hear();
                        }
                    }
                }
            }
            let lease = leases.grant(count, 1).expect("one is free");
            handed[count as usize % THREADS]
                .send(lease)
                .expect("it still runs");
        }
        drop(handed);
        while leases.out() > 0 {
            match receiver.pop() {
                Some(lease) => drop(leases.give_back(lease).expect("one that is out")),
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(receiver.pop(), None);
    });
}
