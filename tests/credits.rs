//! The bound on outstanding elements, counted where elements leave the workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::dataplane::worker::ServerConfig;
use millstream::pipeline::exec::{Functions, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, Params};
use parking_lot::{Condvar, Mutex};

use crate::support::cluster::{Cluster, drain, number};
use crate::support::links::Mechanism;
use crate::support::{eventually, watched};

#[test]
fn a_paused_reader_takes_exactly_what_may_be_outstanding_over_memory() {
    watched("paused, memory", || {
        a_paused_reader_takes_exactly_what_may_be_outstanding(Mechanism::Memory)
    });
}

#[test]
fn a_paused_reader_takes_exactly_what_may_be_outstanding_over_quic() {
    watched("paused, quic", || {
        a_paused_reader_takes_exactly_what_may_be_outstanding(Mechanism::Quic)
    });
}

fn a_paused_reader_takes_exactly_what_may_be_outstanding(mechanism: Mechanism) {
    for workers in [1, 3] {
        let cluster = Cluster::plain(mechanism, workers);
        for max_outstanding in [1, 2, 7, 64] {
            let before = cluster.elements_taken();
            let bound = MaxOutstanding::Elements(max_outstanding);
            let mut reader = cluster.read(Dataset::range(0, 100_000, 1), Policy::Off, bound);
            for read in [1, 2, 100] {
                for _ in 0..read {
                    assert!(reader.next_element().expect("elements come").is_some());
                }
                let taken = || cluster.elements_taken() - before;
                let wanted = reader.stats().elements + max_outstanding;
                eventually(&format!("taken, {workers} workers"), &wanted, taken);
                stays(&wanted, taken);
            }
        }
    }
}

#[test]
fn nothing_is_taken_before_the_first_element_is_asked_for() {
    watched("unread", || {
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        let _reader = cluster.read(
            Dataset::range(0, 100, 1),
            Policy::Off,
            MaxOutstanding::Elements(10),
        );
        stays(&0, || cluster.elements_taken());
    });
}

#[test]
fn a_stuck_worker_leaves_the_others_flowing_over_memory() {
    watched("stuck, memory", || {
        a_stuck_worker_leaves_the_others_flowing(Mechanism::Memory)
    });
}

#[test]
fn a_stuck_worker_leaves_the_others_flowing_over_quic() {
    watched("stuck, quic", || {
        a_stuck_worker_leaves_the_others_flowing(Mechanism::Quic)
    });
}

fn a_stuck_worker_leaves_the_others_flowing(mechanism: Mechanism) {
    const ELEMENTS: i64 = 200;
    for max_outstanding in [1, 7] {
        let (stuck, open) = (Gate::closed(), Gate::open());
        let functions = [&stuck, &open, &open].map(|gate| gate.functions()).to_vec();
        let cluster = Cluster::start(mechanism, functions);
        // Opened before the cluster is dropped, also by a failing test.
        let stuck = OpensWhenDropped(stuck);
        let dataset = Dataset::range(0, ELEMENTS, 1).map_declared("pass", Params::none(), number());
        let mut reader = cluster.read(dataset, Policy::Off, MaxOutstanding::Elements(max_outstanding));
        for element in 0..2 * ELEMENTS {
            assert!(
                reader.next_element().expect("elements come").is_some(),
                "ended after {element}"
            );
        }
        drop(stuck);
        assert_eq!(
            drain(&mut reader),
            (0..ELEMENTS).collect::<Vec<_>>(),
            "the stuck worker's own elements"
        );
    }
}

/// That a condition holds now and for as long as any credit could be on its way.
fn stays<T: PartialEq + std::fmt::Debug>(wanted: &T, look: impl Fn() -> T) {
    let until = Instant::now() + ServerConfig::default().patience * 3;
    while Instant::now() < until {
        assert_eq!(look(), *wanted);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a function waits for.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn closed() -> Self {
        Self::default()
    }

    fn open() -> Self {
        let gate = Self::default();
        gate.set_open();
        gate
    }

    fn set_open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    /// `pass`: yields what it gets, once the gate is open.
    fn functions(&self) -> Functions {
        let gate = self.clone();
        Functions::new().with_map("pass", move |_, input| {
            let gate = gate.clone();
            let call = move |value: Value| {
                let mut is_open = gate.0.0.lock();
                gate.0.1.wait_while(&mut is_open, |is_open| !*is_open);
                Ok(value)
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
    }
}

struct OpensWhenDropped(Gate);

impl Drop for OpensWhenDropped {
    fn drop(&mut self) {
        self.0.set_open();
    }
}
