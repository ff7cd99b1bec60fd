//! Tests of readers that share a job: each reader gets its part, from the first element on.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{JobId, Policy};
use millstream::pipeline::exec::{Functions, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, Params};
use millstream::{LocalElements, LocalRun, ReadRequest, Worker, WorkerConfig, functions, service_reader};

use crate::support::cluster::{Cluster, drain, number};
use crate::support::links::Mechanism;
use crate::support::watched;

/// The time that the slow function takes for an element.
const WORK: Duration = Duration::from_millis(2);

/// The workers are slower than their readers (D4.7).
#[test]
fn slow_workers_are_shared_evenly_in_memory() {
    watched("slow, memory", || even_shares(Mechanism::Memory, 1));
}

#[cfg(target_os = "linux")]
#[test]
fn slow_workers_are_shared_evenly_through_shm() {
    watched("slow, shared memory", || {
        even_shares(Mechanism::Shm, 1);
        even_shares(Mechanism::Shm, 2);
    });
}

#[test]
fn slow_workers_are_shared_evenly_over_quic() {
    watched("slow, QUIC", || {
        even_shares(Mechanism::Quic, 1);
        even_shares(Mechanism::Quic, 2);
    });
}

/// The first reader leaves its unused elements to the second reader (D4.8).
#[test]
fn a_second_reader_gets_elements_at_once() {
    for mechanism in [Mechanism::Memory, Mechanism::Quic] {
        watched("a second reader", move || {
            let cluster = Cluster::plain(mechanism, 1);
            let job = named(&cluster, Dataset::range(0, 1000, 1), Policy::Off);
            let [mut one, mut two] = [(); 2].map(|()| read(&cluster, job));
            assert!(one.next_element().expect("elements").is_some());
            assert!(
                two.next_element().expect("elements").is_some(),
                "the first reader took all"
            );
            let rest = std::thread::scope(|scope| {
                let rest = [one, two].map(|mut reader| scope.spawn(move || drain(&mut reader).len()));
                rest.map(|rest| rest.join().expect("no panic"))
            });
            assert_eq!(rest.iter().sum::<usize>(), 998, "{rest:?}");
        });
    }
}

/// A dataset with operations in the trainer leaves unused elements to other readers (D4.8).
#[test]
fn operations_behind_a_service_do_not_drain_it() {
    watched("operations behind a service", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster
            .service()
            .register(Dataset::range(0, 40, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off).named("shared");
        let distributed = service_reader::dataset(cluster.service(), &request, &ReaderConfig::default());
        let graph = distributed
            .expect("known")
            .batch(1, false)
            .graph()
            .expect("a graph");
        let functions = Arc::new(functions::builtin(Some(&cluster.key)));
        let [mut one, mut two] = [1, 2].map(|task_id| {
            LocalElements::start(LocalRun {
                graph: graph.clone(),
                functions: functions.clone(),
                threads: 1,
                epoch: 0,
                task_id,
                on_demand: false,
                caches: None,
                user_waits: None,
            })
            .expect("a thread")
        });
        let next = |elements: &mut LocalElements| loop {
            if let std::task::Poll::Ready(next) = elements.wait_element(Duration::from_secs(1)) {
                return next.expect("elements").is_some();
            }
        };
        assert!(next(&mut one) && next(&mut two), "the first reader took all");
    });
}

/// The pass continues until its readers have taken all elements, so a worker that registers later takes part.
#[test]
fn a_worker_that_comes_late_takes_part() {
    watched("a late worker", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 1);
        let job = named(&cluster, Dataset::range(0, 1000, 1), Policy::Off);
        let mut reader = read(&cluster, job);
        assert!(reader.next_element().expect("elements").is_some());
        let late = Worker::start(&cluster.key, WorkerConfig::new(&cluster.address));
        cluster.workers.push(late.expect("a worker"));
        assert_eq!(drain(&mut reader).len(), 1999);
    });
}

/// Reads a job of slow workers with two readers at the same time. Each reader must get at least a third of
/// its even share.
fn even_shares(mechanism: Mechanism, workers: usize) {
    const ELEMENTS: usize = 300;
    let cluster = Cluster::start(mechanism, vec![at_work(); workers]);
    let dataset = Dataset::range(0, ELEMENTS as i64, 1).map_declared("work", Params::none(), number());
    let job = named(&cluster, dataset, Policy::Dynamic);
    let together = Barrier::new(2);
    let readers = [(); 2].map(|()| read(&cluster, job));
    let shares = std::thread::scope(|scope| {
        let reading = readers.map(|mut reader| {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                drain(&mut reader).len()
            })
        });
        reading.map(|share| share.join().expect("no panic"))
    });
    assert_eq!(shares.iter().sum::<usize>(), ELEMENTS);
    assert!(
        shares.iter().all(|share| *share >= ELEMENTS / 2 / 3),
        "{mechanism:?}, {workers} workers: {shares:?}"
    );
}

/// Registers the function `work`, which is slow.
fn at_work() -> Functions {
    Functions::new().with_map("work", |_, input| {
        let call = |value: Value| {
            std::thread::sleep(WORK);
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

fn named(cluster: &Cluster, dataset: Dataset, policy: Policy) -> JobId {
    let dataset = cluster.service().register(dataset, None).expect("registered");
    let request = ReadRequest::new(dataset, policy).named("shared");
    cluster.service().job(&request).expect("a job")
}

fn read(cluster: &Cluster, job: JobId) -> Reader {
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Auto,
        ..ReaderConfig::default()
    };
    cluster.service().read(job, 0, &config).expect("a reader")
}
