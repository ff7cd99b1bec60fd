//! Tests of consumers that read in step: in every step, all consumers get elements of the same group of one
//! worker, even if processes die.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream::client::{Canceller, MaxOutstanding, OnLost, ReadError, Reader, ReaderConfig};
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{LocalWorkers, Worker, WorkerConfig, WorkerError};

use crate::support::cluster::{Cluster, LIVENESS, prompt};
use crate::support::consumers::{Party, first_error, groups, job, open, read_apart, read_to_the_end};
use crate::support::links::Mechanism;
use crate::support::mortal::lasting_address;
use crate::support::process::{Process, finish, millstream};
use crate::support::proxy::Proxy;
use crate::support::watchdog::WATCHDOG;
use crate::support::{eventually, watched, watched_for};

/// D7.6.
#[test]
fn one_element_outstanding_serves_several_workers() {
    watched("one credit", || {
        let cluster = Cluster::plain(Mechanism::Memory, 3);
        Party::of(cluster.service(), 2, MaxOutstanding::Elements(1)).read(60);
    });
}

#[test]
fn consumers_stay_in_step_while_workers_change() {
    watched("coming and going", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut party = Party::of(cluster.service(), 3, MaxOutstanding::Elements(7));
        party.read(5);
        for begun in 2..6 {
            let config = WorkerConfig {
                threads: Some(1),
                ..WorkerConfig::new(&cluster.address)
            };
            let late = Worker::start(&cluster.key, config).expect("a worker");
            party.read_until_begun(begun);
            std::mem::replace(&mut cluster.workers[0], late)
                .stop()
                .expect("a goodbye");
            party.read(20);
        }
    });
}

/// Consumers stay in step when their links break, because each consumer keeps the groups that it has
/// received.
#[test]
fn a_cut_network_keeps_consumers_in_step() {
    watched("a cut", || {
        let endpoint = EndpointConfig {
            idle_timeout: Duration::from_millis(600),
            keep_alive: Some(Duration::from_millis(150)),
            ..EndpointConfig::default()
        };
        let mut proxies: Vec<Proxy> = (0..2).map(|_| Proxy::bind()).collect();
        let mut addresses: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        let functions = vec![Functions::new(); 2];
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &endpoint, |config| {
            config.advertise = addresses.pop();
        });
        // The workers received the addresses in reverse order.
        for (proxy, worker) in proxies.iter_mut().rev().zip(&cluster.workers) {
            proxy.forward_to(worker.local_addr());
        }
        let mut party = Party::of(cluster.service(), 3, MaxOutstanding::Elements(20));
        for cut in 0..3 {
            party.read(10 + cut);
            proxies.iter().for_each(|proxy| proxy.set_cut(true));
            let links = || {
                cluster
                    .workers
                    .iter()
                    .map(|worker| worker.server().links().len())
                    .sum::<usize>()
            };
            eventually("links", &0, links);
            proxies.iter().for_each(|proxy| proxy.set_cut(false));
        }
        party.read(60);
        assert_eq!(
            party.steps.iter().filter(|first| **first == 0).count(),
            2,
            "a task began again"
        );
    });
}

/// Under DYNAMIC, each split goes to one worker, and each element of it to one consumer.
#[test]
fn under_dynamic_elements_have_one_consumer() {
    watched("dynamic", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let dataset = Dataset::range(0, 1 << 20, 1).repeat(None);
        let job = job(cluster.service(), dataset, Policy::Dynamic, 3);
        let mut readers: Vec<Reader> = (0..3)
            .map(|consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let mut all: Vec<i64> = read_apart(&mut readers, 300).concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 900, "a number came twice");
    });
}

/// The way in which a worker of a finite read goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    Never,
    Leaves,
    Dies,
}

/// C9.7, C6.5, C10.2: under DYNAMIC each split of a finite dataset goes to one worker. A worker that leaves
/// loses no split. A worker that dies may lose splits. The consumers always end in the same step.
#[test]
fn a_finite_dataset_ends_for_all_consumers() {
    for goes in [Goes::Never, Goes::Leaves, Goes::Dies] {
        watched("a finite dataset", move || read_finite_dataset(goes));
    }
}

fn read_finite_dataset(goes: Goes) {
    const ELEMENTS: i64 = 60_000;
    const SPLIT: i64 = 500;
    let mut cluster = Cluster::plain(Mechanism::Quic, 2);
    let mut process = Some(Process::worker(&cluster));
    let dataset = Dataset::range(0, ELEMENTS, 1).split_size(SPLIT as u64);
    let job = job(cluster.service(), dataset, Policy::Dynamic, 3);
    let open = |consumer| {
        let config = ReaderConfig {
            consumer: Some(consumer),
            on_lost: OnLost::Ignore,
            ..ReaderConfig::default()
        };
        cluster.service().read(job, 0, &config).expect("a reader")
    };
    let mut readers: Vec<Reader> = (0..3).map(open).collect();
    let mut rows = read_apart(&mut readers, 500);
    // A worker that leaves waits for its readers, so that it leaves beside them.
    let mut leaving = None;
    match goes {
        Goes::Never => {}
        Goes::Leaves => {
            let worker = cluster.workers.remove(0);
            leaving = Some(std::thread::spawn(|| worker.drain().expect("a graceful end")));
        }
        Goes::Dies => drop(process.take()),
    }
    for (row, rest) in rows.iter_mut().zip(read_to_the_end(&mut readers)) {
        row.extend(rest);
    }
    let steps: Vec<usize> = rows.iter().map(Vec::len).collect();
    assert!(
        steps.iter().all(|count| *count == steps[0]),
        "{goes:?}: {steps:?}"
    );
    let lost: u64 = readers[0].lost_splits().iter().map(|lost| lost.count).sum();
    let mut all = rows.concat();
    let read = all.len() as i64;
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as i64, read, "{goes:?}: a number came twice");
    assert!(
        goes == Goes::Dies || lost == 0,
        "{goes:?}: {lost} splits are lost"
    );
    // Each task leaves out at most two elements, which fill no round. Late tasks may read the free splits.
    let tasks = 3 + 3 * i64::from(goes == Goes::Dies);
    let missing = ELEMENTS - read;
    assert!(
        missing <= 2 * tasks + SPLIT * lost as i64,
        "{goes:?}: {missing} elements are missing, and {lost} splits are lost"
    );
    if let Some(leaving) = leaving {
        leaving.join().expect("no panic");
    }
}

/// C9.8.
#[test]
fn a_missing_consumer_is_named_to_others() {
    let config = DispatcherConfig {
        consumer_timeout: LIVENESS,
        ..prompt()
    };
    let of = config.clone();
    watched("a consumer that does not come", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, of, 1);
        let job = job(cluster.service(), groups(3), Policy::Off, 3);
        let mut only = open(cluster.service(), job, 1, MaxOutstanding::Auto).expect("a reader");
        let consumers = vec![0, 2];
        assert_eq!(first_error(&mut only), ReadError::ConsumersLost { consumers });
    });
    watched("a consumer that goes", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, config, 1);
        let mut party = Party::of(cluster.service(), 2, MaxOutstanding::Auto);
        party.read(10);
        drop(party.readers.pop());
        let consumers = vec![1];
        assert_eq!(
            first_error(&mut party.readers[0]),
            ReadError::ConsumersLost { consumers }
        );
    });
}

#[test]
fn the_command_reads_as_a_consumer() {
    watched("millstream read --num-consumers", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let read = |consumer: &str, steps: &str| {
            let what = [
                "read",
                "--dispatcher",
                &cluster.address,
                "--range",
                "1000",
                "--batch",
                "10",
            ];
            let who = [
                "--job-name",
                "pair",
                "--num-consumers",
                "2",
                "--consumer",
                consumer,
                "--steps",
                steps,
            ];
            millstream(&cluster.key_text, &[what.as_slice(), &who].concat())
        };
        let finished = std::thread::scope(|scope| {
            let reading = ["0", "1"].map(|consumer| scope.spawn(move || finish(read(consumer, "50"))));
            reading.map(|finished| finished.join().expect("no panic"))
        });
        for finished in finished {
            assert!(finished.status.success(), "{}", finished.stderr);
            assert!(finished.stdout.contains("500 elements"), "{}", finished.stdout);
        }
    });
}

/// The number of restarts of each kind in an ordinary run.
const RESTARTS: usize = 20;

/// The number of restarts of each kind in the long run, a thousand for all kinds.
const RESTARTS_LONG: usize = 250;

/// The worker says goodbye and starts again in the process of its readers (D7.6).
#[test]
fn a_worker_back_serves_on_in_memory() {
    watched_for(10 * WATCHDOG, "restarts in memory", || {
        restart_in_process(Mechanism::Memory, Policy::Dynamic, RESTARTS);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_back_serves_on_through_shm() {
    watched_for(10 * WATCHDOG, "restarts in shared memory", || {
        restart_in_process(Mechanism::Shm, Policy::Dynamic, RESTARTS);
    });
}

#[test]
fn a_worker_back_serves_on_over_quic() {
    watched_for(10 * WATCHDOG, "restarts over QUIC", || {
        restart_in_process(Mechanism::Quic, Policy::Dynamic, RESTARTS);
    });
}

#[test]
fn a_killed_worker_back_serves_on() {
    watched_for(10 * WATCHDOG, "SIGKILL", || {
        restart_process(Policy::Dynamic, RESTARTS)
    });
}

#[test]
#[ignore = "takes minutes: ci/full runs it"]
fn a_thousand_restarts_hang_nobody_memory() {
    watched_for(30 * WATCHDOG, "restarts through memory", || {
        restart_in_process(Mechanism::Memory, Policy::Dynamic, RESTARTS_LONG);
    });
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes minutes: ci/full runs it"]
fn a_thousand_restarts_hang_nobody_shm() {
    watched_for(30 * WATCHDOG, "restarts through shared memory", || {
        restart_in_process(Mechanism::Shm, Policy::Dynamic, RESTARTS_LONG);
    });
}

#[test]
#[ignore = "takes minutes: ci/full runs it"]
fn a_thousand_restarts_hang_nobody_quic() {
    watched_for(30 * WATCHDOG, "restarts through QUIC", || {
        restart_in_process(Mechanism::Quic, Policy::Off, RESTARTS_LONG);
    });
}

#[test]
#[ignore = "takes minutes: ci/full runs it"]
fn a_thousand_restarts_hang_nobody_killed() {
    watched_for(30 * WATCHDOG, "restarts of a killed process", || {
        restart_process(Policy::Dynamic, RESTARTS_LONG);
    });
}

/// The numbers of steps between restarts. Some restarts come before the previous task's first round, and
/// others long after it.
const STEPS: [u64; 5] = [1, 300, 5000, 30, 1000];

/// Restarts a worker in the process of its readers. The worker says goodbye before each restart.
fn restart_in_process(mechanism: Mechanism, policy: Policy, times: usize) {
    let mut cluster = Cluster::plain_with(mechanism, DispatcherConfig::default(), 2);
    let local = cluster.service().local_workers().clone();
    let progress = Progress::start(&cluster, policy);
    // The first restart moves the worker to this address, and later restarts bind it again.
    let bind = Some(lasting_address().parse().expect("an address"));
    for time in 0..times {
        let worker = cluster.workers.remove(0);
        worker.stop().expect("a graceful end");
        let config = WorkerConfig {
            bind,
            threads: Some(1),
            local: match mechanism {
                Mechanism::Memory => local.clone(),
                #[cfg(target_os = "linux")]
                Mechanism::Shm => LocalWorkers::default(),
                Mechanism::Quic => LocalWorkers::default(),
            },
            ..WorkerConfig::new(&cluster.address)
        };
        let worker = started(&cluster, &config);
        cluster.workers.insert(0, worker);
        progress.go_on(
            &cluster,
            STEPS[time % STEPS.len()],
            &format!("{mechanism:?}, {policy:?}, restart {time}"),
        );
    }
    progress.end();
}

/// Starts a worker. The port may be in use for a moment after the worker's end, so the start is repeated.
fn started(cluster: &Cluster, config: &WorkerConfig) -> Worker {
    let deadline = Instant::now() + WATCHDOG / 4;
    loop {
        match Worker::start(&cluster.key, config.clone()) {
            Err(WorkerError::Bind(_)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result.expect("a worker"),
        }
    }
}

/// Restarts a worker process, which is killed before each restart.
fn restart_process(policy: Policy, times: usize) {
    let cluster = Cluster::plain_with(Mechanism::Memory, DispatcherConfig::default(), 0);
    let mut workers: Vec<Process> = (0..2).map(|_| Process::worker(&cluster)).collect();
    let progress = Progress::start(&cluster, policy);
    let address = lasting_address();
    for time in 0..times {
        drop(workers.remove(0));
        let again = ["worker", "--dispatcher", &cluster.address, "--bind", &address];
        workers.insert(0, Process::start(&cluster.key_text, &again));
        progress.go_on(
            &cluster,
            STEPS[time % STEPS.len()],
            &format!("SIGKILL, {policy:?}, restart {time}"),
        );
    }
    progress.end();
}

/// Two consumers that read on separate threads until the test ends them.
struct Progress {
    steps: [Arc<AtomicU64>; 2],
    cancellers: Vec<Canceller>,
    reading: Vec<JoinHandle<ReadError>>,
}

impl Progress {
    fn start(cluster: &Cluster, policy: Policy) -> Self {
        let dataset = Dataset::range(0, 1 << 16, 1).repeat(None);
        let job = job(cluster.service(), dataset, policy, 2);
        let steps = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (mut cancellers, mut reading) = (Vec::new(), Vec::new());
        for (consumer, steps) in (0..).zip(steps.clone()) {
            let config = ReaderConfig {
                consumer: Some(consumer),
                worker_give_up: 10 * WATCHDOG,
                ..ReaderConfig::default()
            };
            let mut reader = cluster.service().read(job, 0, &config).expect("a reader");
            cancellers.push(reader.canceller());
            reading.push(std::thread::spawn(move || {
                loop {
                    match reader.next_element() {
                        Ok(element) => assert!(element.is_some(), "a coordinated read has no end"),
                        Err(error) => return error,
                    }
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Self {
            steps,
            cancellers,
            reading,
        }
    }

    /// Waits until both consumers have read `steps` more steps.
    fn go_on(&self, cluster: &Cluster, steps: u64, what: &str) {
        let now = |steps: &Arc<AtomicU64>| steps.load(Ordering::Relaxed);
        let begun = self.steps.each_ref().map(now);
        let deadline = Instant::now() + WATCHDOG / 2;
        while self
            .steps
            .iter()
            .zip(begun)
            .any(|(of, begun)| now(of) < begun + steps)
        {
            assert!(
                self.reading.iter().all(|reading| !reading.is_finished()),
                "{what}: a consumer has failed"
            );
            assert!(
                Instant::now() < deadline,
                "{what}: hangs at steps {:?}; {:#?}",
                self.steps,
                cluster.service().status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) {
        self.cancellers.iter().for_each(Canceller::cancel);
        for reading in self.reading {
            assert_eq!(reading.join().expect("no panic"), ReadError::Cancelled);
        }
    }
}
