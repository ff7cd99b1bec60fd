//! Tests of the bound on outstanding elements, counted where elements leave the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::{Functions, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, Params};
use parking_lot::{Condvar, Mutex};

use crate::support::cluster::{Cluster, drain, number};
use crate::support::links::Mechanism;
use crate::support::{eventually, watched};

#[test]
fn a_paused_reader_respects_credits_over_memory() {
    watched("paused, memory", || {
        a_paused_reader_takes_exactly_what_may_be_outstanding(Mechanism::Memory)
    });
}

#[test]
fn a_paused_reader_respects_credits_over_quic() {
    watched("paused, quic", || {
        a_paused_reader_takes_exactly_what_may_be_outstanding(Mechanism::Quic)
    });
}

fn a_paused_reader_takes_exactly_what_may_be_outstanding(mechanism: Mechanism) {
    for workers in [1, 3] {
        let gauge = Arc::new(Gauge::default());
        let cluster = gauged(mechanism, workers, &gauge);
        for max_outstanding in [1, 2, 7, 64] {
            let mut reader = read_gauged(&cluster, Dataset::range(0, 100_000, 1), max_outstanding, &gauge);
            for read in [1, 2, 100] {
                for _ in 0..read {
                    assert!(reader.next_element().expect("elements come").is_some());
                }
                let what = format!("outstanding, {workers} workers");
                eventually(&what, &(max_outstanding as i64), || gauge.now());
            }
            assert_eq!(gauge.most(), max_outstanding as i64, "{workers} workers");
            drop(reader);
            // The links must end before the reset, because elements in flight would otherwise count for the
            // next reader.
            let links = || cluster.workers.iter().map(|worker| worker.server().links().len());
            eventually("links", &0, || links().sum::<usize>());
            gauge.reset();
        }
    }
}

#[test]
fn no_element_is_taken_before_the_first_request() {
    watched("unread", || {
        let gauge = Arc::new(Gauge::default());
        let cluster = gauged(Mechanism::Memory, 1, &gauge);
        let _unread = read_gauged(&cluster, Dataset::range(0, 100, 1), 10, &gauge);
        // The second reader is opened later and reads to its end. By then, the first reader would have
        // received elements too.
        let mut read = read_gauged(&cluster, Dataset::range(0, 100, 1), 10, &gauge);
        assert_eq!(drain(&mut read).len(), 100);
        assert_eq!(gauge.now(), 0, "all that was taken was handed over");
    });
}

/// The number of elements that left the workers' buffers and that the reader has not returned yet: now, and
/// its maximum.
#[derive(Debug, Default)]
struct Gauge {
    now: AtomicI64,
    most: AtomicI64,
}

impl Gauge {
    fn add(&self, elements: i64) {
        let now = self.now.fetch_add(elements, Ordering::SeqCst) + elements;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> i64 {
        self.most.load(Ordering::SeqCst)
    }

    fn reset(&self) {
        self.now.store(0, Ordering::SeqCst);
        self.most.store(0, Ordering::SeqCst);
    }
}

fn gauged(mechanism: Mechanism, workers: usize, gauge: &Arc<Gauge>) -> Cluster {
    let functions = vec![Functions::new(); workers];
    Cluster::start_with(mechanism, functions, &EndpointConfig::default(), |config| {
        let gauge = gauge.clone();
        config.server.on_taken = Some(Arc::new(move |elements| gauge.add(elements as i64)));
    })
}

fn read_gauged(cluster: &Cluster, dataset: Dataset, max_outstanding: u64, gauge: &Arc<Gauge>) -> Reader {
    let gauge = gauge.clone();
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(max_outstanding),
        on_handed: Some(Arc::new(move || gauge.add(-1))),
        ..ReaderConfig::default()
    };
    cluster.read_with(dataset, Policy::Off, &config)
}

#[test]
fn a_stuck_worker_blocks_nobody_over_memory() {
    watched("stuck, memory", || {
        a_stuck_worker_leaves_the_others_flowing(Mechanism::Memory)
    });
}

#[test]
fn a_stuck_worker_blocks_nobody_over_quic() {
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
        // The gate opens when this value is dropped, even in a failing test, so that the cluster can end.
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

/// A gate that a worker's function waits for.
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

    /// Registers the function `pass`, which returns its input once the gate is open.
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
