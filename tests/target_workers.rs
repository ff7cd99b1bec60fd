//! Tests of a reader's choice of workers, with workers in this process and workers in other processes, for
//! every target.

use std::sync::Arc;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{
    Code, DeploymentMode, DispatcherConfig, Error, JobId, Policy, TargetWorkers, WorkerAddresses,
};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{
    LocalReader, LocalWorkers, ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig,
    WorkerError, service_reader,
};

use crate::support::cluster::{Cluster, drain, prompt};
use crate::support::links::Mechanism;
use crate::support::losses::next_or_lost;
use crate::support::process::Process;
use crate::support::{eventually, watched};

/// A service with workers in this process and in other processes.
struct Mixed {
    /// The cluster, with the workers in this process.
    cluster: Cluster,
    _remote: Vec<Process>,
}

impl Mixed {
    /// Starts workers of both kinds, with these tags.
    fn start(local: usize, local_tags: &[&str], remote: &[&[&str]]) -> Self {
        Self::with(prompt(), local, local_tags, remote)
    }

    fn with(config: DispatcherConfig, local: usize, local_tags: &[&str], remote: &[&[&str]]) -> Self {
        let mut cluster = Cluster::plain_with(Mechanism::Memory, config, 0);
        for _ in 0..local {
            let worker = worker_here(&cluster, local_tags).expect("a worker");
            cluster.workers.push(worker);
        }
        let remote = remote.iter().map(|tags| {
            let mut arguments = vec!["worker", "--dispatcher", &cluster.address];
            arguments.extend(tags.iter().flat_map(|tag| ["--tag", tag]));
            Process::start(&cluster.key_text, &arguments)
        });
        Self {
            _remote: remote.collect(),
            cluster,
        }
    }

    fn service(&self) -> &Service {
        self.cluster.service()
    }

    fn job(&self, dataset: Dataset, policy: Policy, target: TargetWorkers) -> Result<JobId, ServiceError> {
        let dataset = self.service().register(dataset, None)?;
        self.service()
            .job(&ReadRequest::new(dataset, policy).from_workers(target))
    }

    fn open(&self, job: JobId, pass: u64) -> Result<Reader, ServiceError> {
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(100),
            ..ReaderConfig::default()
        };
        self.service().read(job, pass, &config)
    }

    /// Returns all numbers of one pass over a range, in the order of arrival.
    fn read(&self, stop: i64, policy: Policy, target: TargetWorkers) -> Vec<i64> {
        let job = self.job(Dataset::range(0, stop, 1), policy, target);
        let mut reader = self.open(job.expect("a job"), 0).expect("a reader");
        drain(&mut reader)
    }
}

/// Starts a worker that readers of this process treat as local.
fn worker_here(cluster: &Cluster, tags: &[&str]) -> Result<Worker, WorkerError> {
    let config = WorkerConfig {
        local: cluster.service().local_workers().clone(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        threads: Some(1),
        functions: Arc::new(Functions::new()),
        ..WorkerConfig::new(&cluster.address)
    };
    Worker::start(&cluster.key, config)
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

/// Returns the numbers of a range, each `count` times.
fn times(count: usize, stop: i64) -> Vec<i64> {
    (0..stop)
        .flat_map(|number| std::iter::repeat_n(number, count))
        .collect()
}

fn refusal<T>(outcome: Result<T, ServiceError>) -> Error {
    match outcome {
        Err(ServiceError::Dispatcher(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was granted"),
    }
}

/// C14.1, C14.2, C14.3
#[test]
fn local_readers_read_local_workers_only() {
    watched("local", || {
        for (local, remote) in [(1, 2), (3, 0), (2, 1)] {
            let mixed = Mixed::start(local, &[], &vec![&[][..]; remote]);
            let all = mixed.read(10, Policy::Off, TargetWorkers::Local);
            assert_eq!(sorted(all), times(local, 10));
            let all = mixed.read(1000, Policy::Dynamic, TargetWorkers::Local);
            assert_eq!(
                sorted(all),
                times(1, 1000),
                "no split is reserved for skipped workers"
            );
            assert!(mixed.read(0, Policy::Off, TargetWorkers::Local).is_empty());
            let job = mixed.job(Dataset::range(0, 10, 1), Policy::Off, TargetWorkers::Local);
            let job = job.expect("a job");
            for pass in 0..3 {
                let all = drain(&mut mixed.open(job, pass).expect("a reader"));
                assert_eq!(sorted(all), times(local, 10));
            }
        }
    });
}

/// An element of a local worker has crossed no network (C14.1).
#[test]
fn any_and_host_include_other_workers() {
    watched("any, host, auto", || {
        let mixed = Mixed::start(1, &[], &[&[], &["COLOCATED"]]);
        for (target, workers) in [
            (TargetWorkers::Any, 3),
            (TargetWorkers::Host, 3),
            (TargetWorkers::Auto, 2),
            (TargetWorkers::Local, 1),
        ] {
            let job = mixed.job(Dataset::range(0, 20, 1), Policy::Off, target);
            let mut reader = mixed.open(job.expect("a job"), 0).expect("a reader");
            assert_eq!(sorted(drain(&mut reader)), times(workers, 20), "{target}");
        }
    });
}

/// C14.1
#[test]
fn colocated_workers_of_others_are_skipped() {
    watched("tags", || {
        let mixed = Mixed::start(
            2,
            &["colocated"],
            &[&["COLOCATED", "gpu"], &["Colocated"], &["gpu"]],
        );
        for policy in [Policy::Off, Policy::Dynamic] {
            let copies = if policy == Policy::Off { 3 } else { 1 };
            let all = mixed.read(200, policy, TargetWorkers::Auto);
            assert_eq!(sorted(all), times(copies, 200), "{policy}");
        }
        drop(mixed);
        let mixed = Mixed::start(1, &[], &[&["COLOCATED"]]);
        let all = mixed.read(100, Policy::Off, TargetWorkers::Auto);
        assert_eq!(all, times(1, 100), "one worker, in its order");
    });
}

/// A worker that registers later is read if the target admits it (C14.1, C14.2).
#[test]
fn new_workers_are_read_unless_skipped() {
    watched("late workers", || {
        let mixed = Mixed::start(1, &["COLOCATED"], &[&["COLOCATED"]]);
        let job = mixed.job(Dataset::range(0, 2000, 1), Policy::Off, TargetWorkers::Auto);
        let mut reader = mixed.open(job.expect("a job"), 0).expect("a reader");
        let mut all = Vec::new();
        for _ in 0..100 {
            let element = reader.next_element().expect("it goes on").expect("not its end");
            all.extend(crate::support::cluster::numbers(&element));
        }
        let late: Vec<Process> = [&["x"][..], &["colocated"]]
            .into_iter()
            .map(|tags| {
                let tags = tags.iter().flat_map(|tag| ["--tag", tag]);
                let arguments = ["worker", "--dispatcher", &mixed.cluster.address];
                let arguments: Vec<&str> = arguments.into_iter().chain(tags).collect();
                Process::start(&mixed.cluster.key_text, &arguments)
            })
            .collect();
        all.extend(drain(&mut reader));
        assert_eq!(sorted(all), times(2, 2000));
        drop(late);
    });
}

/// Remaining local workers read the splits of a local worker that left; other workers do not (C14.3, C6.5).
#[test]
fn workers_share_the_rest_of_local_ones() {
    watched("local, a worker stops", || {
        let mut mixed = Mixed::start(2, &[], &[&[]]);
        let job = mixed.job(
            Dataset::range(0, 20_000, 1),
            Policy::Dynamic,
            TargetWorkers::Local,
        );
        let mut reader = mixed.open(job.expect("a job"), 0).expect("a reader");
        let first = reader.next_element().expect("it reads").expect("an element");
        let mut all = crate::support::cluster::numbers(&first);
        let gone = mixed.cluster.workers.remove(0);
        gone.stop().expect("a clean exit");
        while let Some(element) = next_or_lost(&mut reader) {
            all.extend(crate::support::cluster::numbers(&element));
        }
        let lost: u64 = reader.stats().lost_splits.iter().map(|lost| lost.count).sum();
        let all = sorted(all);
        assert!(
            all.windows(2).all(|pair| pair[0] < pair[1]),
            "nothing comes twice"
        );
        assert!(lost > 0 || all == times(1, 20_000), "nothing is lost in silence");
    });
}

/// C14.4
#[test]
fn a_local_reader_needs_a_worker() {
    watched("no local worker", || {
        let mixed = Mixed::with(colocated(1), 0, &[], &[&[]]);
        let dataset = || Dataset::range(0, 10, 1);
        let error = refusal(mixed.job(dataset(), Policy::Off, TargetWorkers::Local));
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("target_workers `local`"), "{error}");
        let error = refusal(mixed.job(dataset(), Policy::Data, TargetWorkers::Auto));
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("sharding policy `data`"), "{error}");
        let dataset = mixed.service().register(dataset(), None).expect("registered");
        let request = ReadRequest {
            num_consumers: Some(2),
            ..ReadRequest::new(dataset.clone(), Policy::Off).from_workers(TargetWorkers::Local)
        };
        assert_eq!(refusal(mixed.service().job(&request)).code, Code::InvalidArgument);
        let shared = ReadRequest::new(dataset, Policy::Off).named("shared");
        mixed.service().job(&shared).expect("a job");
        let error = refusal(mixed.service().job(&shared.from_workers(TargetWorkers::Any)));
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(
            error.message.contains("target_workers is auto, not any"),
            "{error}"
        );
    });
}

/// Each trainer reads the share of its own worker (C14.4).
#[test]
fn colocated_static_sharding_is_by_process() {
    watched("colocated", || {
        let mixed = Mixed::with(colocated(3), 1, &["COLOCATED"], &[&["COLOCATED"], &[]]);
        assert_eq!(mixed.service().deployment_mode(), DeploymentMode::Colocated);
        let share: Vec<i64> = (0..100).step_by(3).collect();
        for policy in [Policy::Data, Policy::FileOrData] {
            assert_eq!(mixed.read(100, policy, TargetWorkers::Auto), share);
        }
        let all = mixed.read(100, Policy::Data, TargetWorkers::Any);
        assert_eq!(sorted(all), times(1, 100));
    });
}

/// C14.5
#[test]
fn a_local_pass_ends_with_its_reader() {
    watched("deleted tasks", || {
        let mut mixed = Mixed::start(1, &[], &[&[]]);
        let dataset = mixed
            .service()
            .register(Dataset::range(0, 10_000, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off)
            .named("shared")
            .from_workers(TargetWorkers::Local);
        let job = mixed.service().job(&request).expect("a job");
        let mut reader = mixed.open(job, 0).expect("a reader");
        let first = reader.next_element().expect("it reads");
        assert!(first.is_some());
        drop(reader);
        eventually("the dispatcher hears of the end", &0, || {
            mixed.service().status().expect("the status").counts.clients
        });
        let error = refusal(mixed.open(job, 0));
        assert_eq!(error.code, Code::FailedPrecondition);
        assert!(error.message.contains("deleted"), "{error}");
        let whole = drain(&mut mixed.open(job, 1).expect("the next pass"));
        assert_eq!(whole, times(1, 10_000));
        // Another worker of the same process can take the place of the first.
        mixed.cluster.workers.remove(0).stop().expect("a clean exit");
        let worker = worker_here(&mixed.cluster, &[]).expect("a worker");
        mixed.cluster.workers.push(worker);
        let whole = drain(&mut mixed.open(job, 2).expect("the pass after it"));
        assert_eq!(whole, times(1, 10_000));
    });
}

/// A dataset with further operations in the trainer also has a target (C14.1).
#[test]
fn a_services_dataset_is_read_from_its_target() {
    watched("service reader", || {
        let mixed = Mixed::start(1, &[], &[&[]]);
        let dataset = mixed
            .service()
            .register(Dataset::range(0, 10, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off).from_workers(TargetWorkers::Local);
        let read = service_reader::dataset(mixed.service(), &request, &ReaderConfig::default());
        let thrice = read.expect("a dataset").repeat(Some(3));
        let local = mixed.service().local_workers().clone();
        let opener =
            service_reader::opener(mixed.cluster.key.clone(), local, service_reader::Hooks::default());
        let functions = Functions::new().with_service(opener);
        let reader = LocalReader::open(thrice, Arc::new(functions), 1, 0).expect("a reader");
        let numbers = reader.map(|element| {
            let element = element.expect("it goes on");
            element[0].as_i64().expect("a number")
        });
        let wanted: Vec<i64> = (0..3).flat_map(|_| 0..10).collect();
        assert_eq!(numbers.collect::<Vec<_>>(), wanted);
    });
}

#[test]
fn an_empty_tag_is_refused_early() {
    watched("empty tag", || {
        let (key, _) = crate::support::cluster::fresh_key();
        let config = WorkerConfig {
            tags: vec!["gpu".to_owned(), String::new()],
            // No dispatcher listens at this address.
            ..WorkerConfig::new("127.0.0.1:9")
        };
        let error = Worker::start(&key, config).expect_err("an empty tag");
        assert!(
            matches!(&error, WorkerError::Dispatcher(error) if error.code == Code::FailedPrecondition),
            "{error}"
        );
        assert!(error.to_string().contains("tag"), "{error}");
    });
}

/// A connection with other local workers does not see this service's workers, although the workers run in the
/// same process.
#[test]
fn separate_local_workers_are_like_separate_processes() {
    watched("two in one", || {
        let mixed = Mixed::start(1, &["COLOCATED"], &[]);
        let config = ServiceConfig {
            local: LocalWorkers::default(),
            ..ServiceConfig::default()
        };
        let other = Service::connect(&mixed.cluster.key, &mixed.cluster.address, config).expect("a service");
        let dataset = other
            .register(Dataset::range(0, 10, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off).from_workers(TargetWorkers::Local);
        assert_eq!(refusal(other.job(&request)).code, Code::InvalidArgument);
        let job = other
            .job(&request.from_workers(TargetWorkers::Host))
            .expect("a job");
        let mut reader = other.read(job, 0, &ReaderConfig::default()).expect("a reader");
        assert_eq!(drain(&mut reader), times(1, 10));
        drop(reader);
        other.close();
    });
}

fn colocated(workers: usize) -> DispatcherConfig {
    DispatcherConfig {
        deployment_mode: DeploymentMode::Colocated,
        worker_addresses: WorkerAddresses::new(vec!["127.0.0.1:%port%"; workers]).expect("addresses"),
        ..prompt()
    }
}
