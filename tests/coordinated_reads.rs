//! Consumers that read in step: every step gives all of them elements of one group of one worker, whatever dies meanwhile.

use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::{DispatcherConfig, JobId, Policy};
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Worker, WorkerConfig, service_reader};

use crate::support::cluster::{Cluster, LIVENESS, numbers, prompt};
use crate::support::links::Mechanism;
use crate::support::process::{Process, finish, millstream};
use crate::support::proxy::Proxy;
use crate::support::{eventually, watched};

/// Groups that a worker draws from; two workers draw the same one at the same time once in so many.
const GROUPS: i64 = 1 << 20;

/// Groups of consecutive numbers: first the one from 0, by which a new worker is known, then others, each worker in an order
/// of its own, without end.
fn groups(consumers: u32) -> Dataset {
    let n = i64::from(consumers);
    let others = Dataset::range(n, GROUPS * n, 1);
    let shuffled = others
        .batch(u64::from(consumers), true)
        .shuffle(512, None)
        .unbatch();
    Dataset::range(0, n, 1).concatenate(shuffled.repeat(None))
}

/// The consumers of one pass of a job.
struct Party {
    readers: Vec<Reader>,
    /// The first number of each group, step by step.
    steps: Vec<i64>,
}

impl Party {
    fn of(cluster: &Cluster, consumers: u32, max_outstanding: MaxOutstanding) -> Self {
        let job = job(cluster, groups(consumers), Policy::Off, consumers);
        Self {
            readers: (0..consumers)
                .map(|consumer| open(cluster, job, consumer, max_outstanding).expect("a reader"))
                .collect(),
            steps: Vec::new(),
        }
    }

    /// Reads so many steps, each consumer on a thread of its own.
    fn read(&mut self, steps: usize) {
        let n = self.readers.len() as i64;
        let rows = read_apart(&mut self.readers, steps);
        for step in 0..steps {
            let first = rows[0][step];
            assert_eq!(first % n, 0, "step {step} does not begin a group");
            for (consumer, row) in (0..).zip(&rows) {
                assert_eq!(row[step], first + consumer, "consumer {consumer} is out of step");
            }
            self.steps.push(first);
        }
    }

    /// Reads until so many tasks have begun in all, and a little further.
    fn read_until_begun(&mut self, tasks: usize) {
        while self.steps.iter().filter(|first| **first == 0).count() < tasks {
            self.read(1);
        }
        self.read(20);
    }
}

fn read_apart(readers: &mut [Reader], steps: usize) -> Vec<Vec<i64>> {
    let read = |reader: &mut Reader| -> Vec<i64> {
        let next = || numbers(&reader.next_element().expect("no failure").expect("no end"))[0];
        std::iter::repeat_with(next).take(steps).collect()
    };
    std::thread::scope(|scope| {
        let reading: Vec<_> = readers
            .iter_mut()
            .map(|reader| scope.spawn(move || read(reader)))
            .collect();
        let rows = reading.into_iter().map(|row| row.join());
        rows.map(|row| row.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn job(cluster: &Cluster, dataset: Dataset, policy: Policy, consumers: u32) -> JobId {
    let dataset = cluster.service().register(dataset, None).expect("registered");
    let request = ReadRequest::new(dataset, policy)
        .named("in step")
        .coordinated(consumers);
    cluster.service().job(&request).expect("a job")
}

fn open(
    cluster: &Cluster,
    job: JobId,
    consumer: u32,
    max_outstanding: MaxOutstanding,
) -> Result<Reader, millstream::ServiceError> {
    let config = ReaderConfig {
        max_outstanding,
        consumer: Some(consumer),
        ..ReaderConfig::default()
    };
    cluster.service().read(job, 0, &config)
}

fn first_error(reader: &mut Reader) -> ReadError {
    loop {
        if let Err(error) = reader.next_element() {
            return error;
        }
    }
}

/// Up to the removal of a worker its consumers read on with the others.
fn written_off(cluster: &Cluster, workers: usize) {
    let dead = || {
        let status = cluster.service().status().expect("a status");
        status
            .workers
            .iter()
            .filter(|worker| worker.dead.is_some())
            .count()
    };
    eventually("workers written off", &workers, dead);
}

#[test]
fn all_consumers_get_the_same_group_in_each_step() {
    for workers in [1, 3] {
        for consumers in [1, 2, 5] {
            watched(&format!("{workers} workers, {consumers} consumers"), move || {
                let cluster = Cluster::plain(Mechanism::Quic, workers);
                let mut party = Party::of(&cluster, consumers, MaxOutstanding::Auto);
                party.read(100);
                assert_eq!(
                    party.steps[..workers],
                    vec![0; workers],
                    "each worker has its turn in a round"
                );
                assert_eq!(party.steps.iter().filter(|first| **first == 0).count(), workers);
            });
        }
    }
}

/// D7.6.
#[test]
fn one_element_outstanding_serves_several_workers() {
    watched("one credit", || {
        let cluster = Cluster::plain(Mechanism::Memory, 3);
        Party::of(&cluster, 2, MaxOutstanding::Elements(1)).read(60);
    });
}

#[test]
fn a_worker_that_is_killed_leaves_nobody_behind_and_another_joins_all_at_once() {
    watched("SIGKILL", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let mut workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
        let mut party = Party::of(&cluster, 5, MaxOutstanding::Auto);
        party.read(20);
        workers.pop().expect("three").signal("KILL");
        party.read(40);
        written_off(&cluster, 1);
        workers.push(Process::worker(&cluster));
        party.read_until_begun(4);
    });
}

#[test]
fn workers_that_come_and_go_at_any_time_leave_all_in_step() {
    watched("coming and going", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut party = Party::of(&cluster, 3, MaxOutstanding::Elements(7));
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
                .expect("a farewell");
            party.read(20);
        }
    });
}

/// What each consumer has had stays behind it when its links break.
#[test]
fn a_cut_network_holds_all_up_and_puts_nobody_out_of_step() {
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
        // The addresses were given from the last to the first.
        for (proxy, worker) in proxies.iter_mut().rev().zip(&cluster.workers) {
            proxy.forward_to(worker.local_addr());
        }
        let mut party = Party::of(&cluster, 3, MaxOutstanding::Elements(20));
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
            "a task began anew"
        );
    });
}

/// Each split goes to one worker, and what it gives to all consumers.
#[test]
fn under_dynamic_each_element_goes_to_one_consumer_at_most_once() {
    watched("dynamic", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let dataset = Dataset::range(0, 1 << 20, 1).repeat(None);
        let job = job(&cluster, dataset, Policy::Dynamic, 3);
        let mut readers: Vec<Reader> = (0..3)
            .map(|consumer| open(&cluster, job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let mut all: Vec<i64> = read_apart(&mut readers, 300).concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 900, "a number came twice");
    });
}

/// C9.8.
#[test]
fn a_consumer_that_does_not_come_or_goes_is_named_to_the_others() {
    let config = DispatcherConfig {
        consumer_timeout: LIVENESS,
        ..prompt()
    };
    let of = config.clone();
    watched("a consumer that does not come", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, of, 1);
        let job = job(&cluster, groups(3), Policy::Off, 3);
        let mut only = open(&cluster, job, 1, MaxOutstanding::Auto).expect("a reader");
        let consumers = vec![0, 2];
        assert_eq!(first_error(&mut only), ReadError::ConsumersLost { consumers });
    });
    watched("a consumer that goes", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, config, 1);
        let mut party = Party::of(&cluster, 2, MaxOutstanding::Auto);
        party.read(10);
        drop(party.readers.pop());
        let consumers = vec![1];
        assert_eq!(
            first_error(&mut party.readers[0]),
            ReadError::ConsumersLost { consumers }
        );
    });
}

/// C9.2.
#[test]
fn a_consumer_begins_a_pass_once() {
    watched("a second set of consumers", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let job = job(&cluster, groups(3), Policy::Off, 3);
        let open = |consumer| open(&cluster, job, consumer, MaxOutstanding::Auto);
        let mut readers: Vec<Reader> = (0..3).map(|consumer| open(consumer).expect("a reader")).collect();
        read_apart(&mut readers, 20);
        for again in 0..3 {
            let refused = open(again).expect_err("it has begun").to_string();
            assert!(refused.contains(&format!("consumer {again}")), "{refused}");
        }
        drop(readers.remove(0));
        assert!(open(0).is_err(), "it has begun, whoever it was");
        assert!(open(3).expect_err("there are three").to_string().contains('3'));
    });
}

/// C9.1.
#[test]
fn what_has_an_end_is_refused_or_fails_where_it_ends() {
    watched("finite", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let finite = cluster
            .service()
            .register(Dataset::range(0, 100, 1), None)
            .expect("registered");
        let request = ReadRequest::new(finite, Policy::Off).coordinated(2);
        let refused = cluster
            .service()
            .job(&request)
            .expect_err("it has an end")
            .to_string();
        assert!(
            refused.contains("infinite") && refused.contains("100"),
            "{refused}"
        );

        // Nobody knows before that this ends.
        let inputs = [1.0, 1.0].map(|weight| (weight, Dataset::range(0, 50, 1)));
        let unknown = Dataset::sample(inputs, Some(1), true);
        let job = job(&cluster, unknown, Policy::Off, 2);
        let mut readers: Vec<Reader> = (0..2)
            .map(|consumer| open(&cluster, job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let steps: Vec<usize> = std::thread::scope(|scope| {
            let read = |reader: &mut Reader| {
                let mut steps = 0;
                loop {
                    match reader.next_element() {
                        Ok(element) => assert!(element.is_some(), "an end without an error"),
                        Err(error) => {
                            assert!(
                                error.to_string().contains("end of data in a coordinated read"),
                                "{error}"
                            );
                            return steps;
                        }
                    }
                    steps += 1;
                }
            };
            let reading: Vec<_> = readers
                .iter_mut()
                .map(|reader| scope.spawn(move || read(reader)))
                .collect();
            reading
                .into_iter()
                .map(|steps| steps.join().expect("no panic"))
                .collect()
        });
        assert!(steps[0] > 20 && steps[0] == steps[1], "{steps:?}");
    });
}

#[test]
fn what_consumers_read_has_no_end_in_their_pipelines_either() {
    watched("as a source", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(groups(1), None).expect("registered");
        let request = ReadRequest::new(dataset, Policy::File)
            .named("in step")
            .coordinated(1);
        let config = ReaderConfig {
            consumer: Some(0),
            ..ReaderConfig::default()
        };
        let source = service_reader::dataset(cluster.service(), &request, &config);
        let graph = source.expect("known").graph().expect("a graph");
        let facts = graph.facts(&Functions::new()).expect("facts");
        assert_eq!(
            facts.cardinality,
            millstream::pipeline::graph::Cardinality::Infinite
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
