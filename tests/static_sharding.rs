//! Tests of datasets divided among a fixed list of workers: the shares together are the whole dataset, and an
//! indivisible dataset is refused with a reason.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::{Code, DispatcherConfig, Error, Policy, WorkerAddresses};
use millstream::pipeline::graph::{Cardinality, Dataset, NoFunctions, OnError};
use millstream::{
    ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig, WorkerError, service_reader,
};
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::cluster::{Cluster, drain, fresh_key, numbers, prompt};
use crate::support::links::Mechanism;
use crate::support::mortal::Mortal;
use crate::support::process::{Process, Running, finish, millstream};
use crate::support::{eventually, watched};

const STATIC: [Policy; 4] = [Policy::File, Policy::Data, Policy::FileOrData, Policy::Hint];

/// The number of cases. The number is small, because each case starts a service and reads it several times.
const CASES: u32 = 6;

/// Returns the settings of a dispatcher with this list of workers.
fn listing(addresses: &[&str]) -> DispatcherConfig {
    DispatcherConfig {
        worker_addresses: WorkerAddresses::new(addresses.iter().copied()).expect("addresses"),
        ..prompt()
    }
}

/// Starts a service of `workers` workers, all of which are in the dispatcher's list.
fn service(mechanism: Mechanism, workers: usize) -> Cluster {
    let list = vec!["127.0.0.1:%port%"; workers];
    Cluster::plain_with(mechanism, listing(&list), workers)
}

/// Creates shards of three WebDataset samples each; sample `n` of shard `s` contains the number `10 * s + n`.
fn shards(count: usize) -> (TempDir, Dataset) {
    let directory = tempfile::tempdir().expect("a directory");
    for shard in 0..count {
        let mut bytes = Vec::new();
        for sample in 0..3 {
            append(
                &mut bytes,
                &format!("{}.n", 10 * shard + sample),
                &(10 * shard + sample).to_string(),
            );
        }
        // Two zero blocks end an archive.
        bytes.extend([0; 1024]);
        std::fs::write(directory.path().join(format!("{shard:03}.tar")), bytes).expect("written");
    }
    let dataset = Dataset::files_shuffled(format!("{}/*.tar", directory.path().display()), None)
        .webdataset(["n"], OnError::Raise)
        .parse_int("n")
        .select([("n", "n")]);
    (directory, dataset)
}

/// Appends a file to an archive in the tar format (ustar).
fn append(archive: &mut Vec<u8>, name: &str, content: &str) {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend(header);
    archive.extend(content.as_bytes());
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

fn read(cluster: &Cluster, dataset: Dataset, policy: Policy) -> Reader {
    cluster.read(dataset, policy, MaxOutstanding::Elements(7))
}

fn refused(cluster: &Cluster, dataset: Dataset, policy: Policy) -> Error {
    let dataset = cluster.service().register(dataset, None).expect("registered");
    let request = ReadRequest::new(dataset, policy);
    match cluster.service().job(&request) {
        Err(ServiceError::Dispatcher(error)) => error,
        other => panic!("{policy}: {other:?}"),
    }
}

fn failure(mut reader: Reader) -> ReadError {
    let error = reader.find_map(Result::err);
    error.expect("the reading fails")
}

fn every_number_once(mechanism: Mechanism, workers: usize, elements: i64) {
    let cluster = service(mechanism, workers);
    let whole: Vec<i64> = (0..elements).collect();
    // The input of the shard is shuffled without a seed, so all workers must use the same order.
    let dataset = || Dataset::range(0, elements, 1).shuffle(100, None);
    for policy in [Policy::Data, Policy::FileOrData] {
        assert_eq!(
            sorted(drain(&mut read(&cluster, dataset(), policy))),
            whole,
            "{policy}"
        );
    }
    let hinted = dataset().shard_hint().batch(3, false);
    assert_eq!(sorted(drain(&mut read(&cluster, hinted, Policy::Hint))), whole);
    let everything = drain(&mut read(&cluster, dataset(), Policy::Hint));
    assert_eq!(
        everything.len(),
        workers * whole.len(),
        "without a hint, every worker yields the whole dataset"
    );
    let (_directory, files) = shards(workers + 3);
    let expected: Vec<i64> = (0..workers as i64 + 3)
        .flat_map(|shard| (0..3).map(move |sample| 10 * shard + sample))
        .collect();
    for policy in [Policy::File, Policy::FileOrData, Policy::Data] {
        let found = sorted(drain(&mut read(&cluster, files.clone(), policy)));
        assert_eq!(found, expected, "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 8, ..rounds(CASES) })]

    #[test]
    fn over_quic_every_number_comes_once(workers in 1..=4_usize, extra in 0..200_i64) {
        let what = format!("{workers} workers, {extra} elements more");
        watched(&what, move || every_number_once(Mechanism::Quic, workers, workers as i64 + extra));
    }

    #[test]
    fn over_memory_every_number_comes_once(workers in 1..=4_usize, extra in 0..200_i64) {
        let what = format!("{workers} workers, {extra} elements more");
        watched(&what, move || every_number_once(Mechanism::Memory, workers, workers as i64 + extra));
    }
}

#[test]
fn dividing_too_little_is_an_error() {
    watched("too little", || {
        let cluster = service(Mechanism::Quic, 3);
        let (_directory, files) = shards(2);
        for policy in [Policy::Data, Policy::FileOrData] {
            let empty = Dataset::range(0, 0, 1);
            assert!(drain(&mut read(&cluster, empty, policy)).is_empty(), "{policy}");
            let error = failure(read(&cluster, Dataset::range(0, 2, 1), policy)).to_string();
            assert!(
                error.contains("2 elements, which is not enough for 3 shards"),
                "{error}"
            );
        }
        let error = failure(read(&cluster, files.clone(), Policy::File)).to_string();
        assert!(
            error.contains("2 elements, which is not enough for 3 shards"),
            "{error}"
        );
        assert_eq!(
            drain(&mut read(&cluster, files, Policy::Data)).len(),
            6,
            "it has 6 records"
        );
    });
}

#[test]
fn indivisible_datasets_are_refused_early() {
    watched("refusals", || {
        let cluster = service(Mechanism::Quic, 2);
        let numbers = || Dataset::range(0, 20, 1);
        let error = refused(&cluster, numbers(), Policy::File);
        assert_eq!(error.code, Code::NotFound);
        assert!(error.message.contains("its source \"range\" has none"), "{error}");
        for policy in [Policy::Off, Policy::Dynamic, Policy::Data, Policy::FileOrData] {
            let error = refused(&cluster, numbers().shard_hint(), policy);
            assert_eq!(error.code, Code::FailedPrecondition, "{error}");
        }
        let unlisted = Cluster::plain(Mechanism::Quic, 1);
        for policy in STATIC {
            let error = refused(&unlisted, numbers(), policy);
            assert_eq!(error.code, Code::NotFound);
            assert!(error.message.contains("fixed list of workers"), "{error}");
        }
    });
}

#[test]
fn an_unlisted_worker_does_not_start() {
    watched("unlisted", || {
        for list in [["localhost:%port%"], ["127.0.0.1:worker"], ["127.0.0.1:1"]] {
            let cluster = Cluster::plain_with(Mechanism::Quic, listing(&list), 0);
            let Err(WorkerError::Dispatcher(error)) =
                Worker::start(&cluster.key, WorkerConfig::new(&cluster.address))
            else {
                panic!("{list:?}: it starts")
            };
            assert_eq!(error.code, Code::FailedPrecondition);
            assert!(error.message.contains(list[0]), "{error}");
        }
        let cluster = service(Mechanism::Quic, 1);
        let second = Worker::start(&cluster.key, WorkerConfig::new(&cluster.address));
        let Err(WorkerError::Dispatcher(error)) = second else {
            panic!("it starts")
        };
        assert_eq!(error.code, Code::FailedPrecondition);
        assert_eq!(
            drain(&mut read(&cluster, Dataset::range(0, 5, 1), Policy::Data)),
            [0, 1, 2, 3, 4]
        );
    });
}

#[test]
fn reading_waits_for_absent_workers() {
    watched("late worker", || {
        let mut cluster = Cluster::plain_with(
            Mechanism::Quic,
            listing(&["127.0.0.1:%port%", "127.0.0.1:%port%"]),
            1,
        );
        let mut reader = read(&cluster, Dataset::range(0, 20, 1), Policy::Data);
        let half: BTreeSet<i64> = (0..10)
            .map(|_| numbers(&reader.next_element().expect("goes on").expect("an element"))[0])
            .collect();
        assert_eq!(half, (0..20).step_by(2).collect());
        eventually("it waits", &true, || {
            let status = cluster.service().status().expect("a status");
            status.iterations[0].waiting_for_workers
        });
        let late = Worker::start(&cluster.key, WorkerConfig::new(&cluster.address)).expect("a worker");
        cluster.workers.push(late);
        assert_eq!(sorted(drain(&mut reader)), (1..20).step_by(2).collect::<Vec<_>>());
    });
}

#[test]
fn a_lost_share_names_its_worker() {
    watched("lost share", || {
        let mut cluster = service(Mechanism::Quic, 2);
        let gone = cluster.workers.pop().expect("two workers");
        let address = gone.address().to_owned();
        // The dataset is endless, so that no share is read to its end.
        let mut reader = read(&cluster, Dataset::range(0, 1000, 1).repeat(None), Policy::Data);
        reader.next_element().expect("goes on").expect("an element");
        gone.stop().expect("a clean exit");
        let error = loop {
            match reader.next_element() {
                Ok(element) => assert!(element.is_some(), "an endless dataset has no end"),
                Err(error) => break error,
            }
        };
        assert_eq!(
            error,
            ReadError::WorkersLost {
                workers: vec![address]
            }
        );
    });
}

#[test]
fn a_returning_worker_restarts_its_share() {
    watched("comes back", || {
        let mut config = listing(&["127.0.0.1:%port%", "127.0.0.1:%port%"]);
        config.workers_lost_grace = Duration::from_secs(3600);
        let mut cluster = Cluster::plain_with(Mechanism::Quic, config, 2);
        let gone = cluster.workers.pop().expect("two workers");
        let mut reader = read(&cluster, Dataset::range(0, 2000, 1), Policy::Data);
        let first = numbers(&reader.next_element().expect("goes on").expect("an element"))[0];
        gone.stop().expect("a clean exit");
        let back = Worker::start(&cluster.key, WorkerConfig::new(&cluster.address)).expect("a worker");
        cluster.workers.push(back);
        let mut found = drain(&mut reader);
        found.push(first);
        assert!(found.len() >= 2000, "what was read before may come again");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), (0..2000).collect());
    });
}

#[test]
fn the_program_divides_among_its_workers() {
    let (_, key) = fresh_key();
    let list = "127.0.0.1:%port%,127.0.0.1:%port_second%";
    let dispatcher = Process::start(
        &key,
        &[
            "dispatcher",
            "--bind",
            "127.0.0.1:0",
            "--worker-addresses",
            list,
            "--liveness-s",
            "3600",
        ],
    );
    let address = dispatcher.address.clone();
    let start = || Process::start(&key, &["worker", "--dispatcher", &address]);
    let workers = [start(), start()];
    let third = finish(millstream(&key, &["worker", "--dispatcher", &address]));
    assert_eq!(third.status.code(), Some(1), "{third:?}");
    assert!(third.stderr.contains("fixed list of workers"), "{third:?}");
    let read = |arguments: &[&str]| {
        let all = [
            &[
                "read",
                "--dispatcher",
                &address,
                "--batch",
                "0",
                "--range",
                "5000",
            ],
            arguments,
        ]
        .concat();
        let finished = finish(millstream(&key, &all));
        assert!(finished.status.success(), "{finished:?}");
        let line = finished.stdout.lines().next().expect("a line").to_owned();
        (
            line.split(' ').nth(2).expect("a count").to_owned(),
            line.rsplit(' ').next().expect("a digest").to_owned(),
        )
    };
    let dynamic = read(&[]);
    assert_eq!(dynamic.0, "5000");
    for policy in [["--sharding", "data"], ["--policy", "file_or_data"]] {
        assert_eq!(read(&policy), dynamic, "{policy:?}");
    }
    assert_eq!(read(&["--policy", "hint"]).0, "10000");
    let arguments = [
        "read",
        "--dispatcher",
        &address,
        "--range",
        "10",
        "--policy",
        "file",
    ];
    let by_files = Running::start(millstream(&key, &arguments)).finish();
    assert_eq!(by_files.status.code(), Some(1), "{by_files:?}");
    assert!(
        by_files.stderr.contains("its source \"range\" has none"),
        "{by_files:?}"
    );
    assert!(workers.into_iter().all(Process::ends_well));
    assert!(dispatcher.ends_well());
    let wrong = finish(millstream(&key, &["dispatcher", "--worker-addresses", "a:1,a:1"]));
    assert!(wrong.stderr.contains("a:1 stands twice"), "{wrong:?}");
}

#[test]
fn a_restarted_dispatcher_keeps_its_shares() {
    watched("killed dispatcher", || {
        let (loaded, key) = fresh_key();
        let folder = tempfile::tempdir().expect("a directory");
        let list = ["--worker-addresses", "127.0.0.1:%port%,127.0.0.1:%port%"];
        let dispatcher = Mortal::start(
            &key,
            folder.path(),
            &[&list[..], &["--liveness-s", "10"]].concat(),
        );
        let start = || Process::start(&key, &["worker", "--dispatcher", &dispatcher.address]);
        let workers = [start(), start()];
        let config = ServiceConfig::default();
        let service = Service::connect(&loaded, &dispatcher.address, config).expect("a trainer's side");
        let dataset = service
            .register(Dataset::range(0, 20_000, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Data);
        let job = service.job(&request).expect("a job");
        let whole: Vec<i64> = (0..20_000).collect();
        for pass in 0..2 {
            let mut reader = service
                .read(job, pass, &ReaderConfig::default())
                .expect("a reader");
            let next = |reader: &mut Reader| reader.next_element().expect("goes on").expect("an element");
            let mut found: Vec<i64> = (0..1000).map(|_| numbers(&next(&mut reader))[0]).collect();
            dispatcher.kill_and_revive();
            found.extend(drain(&mut reader));
            assert!(
                sorted(found) == whole,
                "pass {pass} is not whole, or something came twice"
            );
        }
        service.close();
        assert!(workers.into_iter().all(Process::ends_well));
    });
}

#[test]
fn the_policy_decides_known_cardinality() {
    watched("cardinality", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let of = |dataset: Dataset, policy| {
            let dataset = cluster.service().register(dataset, None).expect("registered");
            let request = ReadRequest::new(dataset, policy);
            let read = service_reader::dataset(cluster.service(), &request, &ReaderConfig::default());
            let graph = read.expect("a dataset").graph().expect("a graph");
            graph.facts(&NoFunctions).expect("facts").cardinality
        };
        let endless = || Dataset::range(0, 9, 1).repeat(None);
        for policy in [Policy::Off, Policy::Dynamic, Policy::Data] {
            assert_eq!(of(endless(), policy), Cardinality::Infinite, "{policy}");
        }
        assert_eq!(of(endless(), Policy::FileOrData), Cardinality::Unknown);
        assert_eq!(of(endless().shard_hint(), Policy::Hint), Cardinality::Unknown);
        for policy in [Policy::Off, Policy::Dynamic, Policy::Data, Policy::FileOrData] {
            let empty = Dataset::range(0, 0, 1);
            assert_eq!(of(empty, policy), Cardinality::Finite(0), "{policy}");
            assert_eq!(
                of(Dataset::range(0, 9, 1), policy),
                Cardinality::Unknown,
                "{policy}"
            );
        }
    });
}

/// Runs two `read` commands with the same job name.
#[test]
fn two_readers_of_one_job_share_the_shares() {
    watched("two readers", || {
        let cluster = service(Mechanism::Quic, 3);
        let dataset = cluster
            .service()
            .register(Dataset::range(0, 3000, 1), None)
            .expect("registered");
        let request = ReadRequest {
            job_name: Some("shared".to_owned()),
            ..ReadRequest::new(dataset, Policy::Data)
        };
        let job = cluster.service().job(&request).expect("a job");
        let open = || {
            cluster
                .service()
                .read(job, 0, &ReaderConfig::default())
                .expect("a reader")
        };
        let readers = [open(), open()];
        let threads: Vec<_> = readers
            .into_iter()
            .map(|mut reader| std::thread::spawn(move || drain(&mut reader)))
            .collect();
        let all = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("it reads"));
        assert_eq!(sorted(all.collect()), (0..3000).collect::<Vec<_>>());
    });
}
