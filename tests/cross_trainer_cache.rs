//! Tests of the cross-trainer cache over real services: trainers share the elements that workers have
//! computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::{Code, DatasetId, Policy};
use millstream::dataplane::transport::Compression;
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::{Functions, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, Params};
use millstream::{ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig};

use crate::support::cluster::{Cluster, fresh_key, number, numbers};
use crate::support::links::Mechanism;
use crate::support::mortal::Mortal;
use crate::support::process::{finish, millstream};
use crate::support::{eventually, watched};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Memory, Mechanism::Quic];

fn endless() -> Dataset {
    Dataset::range(0, 10_000_000, 1).repeat(None)
}

fn cached(dataset: DatasetId, policy: Policy) -> ReadRequest {
    ReadRequest {
        cross_trainer_cache: true,
        ..ReadRequest::new(dataset, policy).named("job")
    }
}

/// Returns the settings of a trainer with few outstanding elements.
fn trainer(id: &str) -> ReaderConfig {
    ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(4),
        trainer_id: Some(id.to_owned()),
        ..ReaderConfig::default()
    }
}

fn open(service: &Service, request: &ReadRequest, id: &str) -> Reader {
    let job = service.job(request).expect("a job");
    service.read(job, 0, &trainer(id)).expect("a reader")
}

fn take(reader: &mut Reader, count: usize) -> Vec<i64> {
    let elements = reader.take(count);
    elements
        .flat_map(|element| numbers(&element.expect("an element")))
        .collect()
}

/// Starts a service of one worker that keeps `cache_bytes` bytes for trainers.
fn keeping(mechanism: Mechanism, cache_bytes: u64) -> Cluster {
    Cluster::start_with(
        mechanism,
        vec![Functions::new()],
        &EndpointConfig::default(),
        |config| {
            config.cross_trainer_cache_bytes = Some(cache_bytes);
        },
    )
}

fn first(count: i64) -> Vec<i64> {
    (0..count).collect()
}

/// The second trainer needs only the dataset's id (`testEnableCrossTrainerCache`, `testFromDatasetId`).
#[test]
fn trainers_of_one_job_get_the_same_elements() {
    watched("two trainers", || {
        for mechanism in MECHANISMS {
            let cluster = Cluster::plain(mechanism, 1);
            let id = DatasetId::new("numbers").expect("an id");
            let registered = cluster
                .service()
                .register(endless(), Some(id.clone()))
                .expect("registered");
            let mut one = open(cluster.service(), &cached(registered, Policy::Off), "one");
            assert_eq!(take(&mut one, 10), first(10));
            let mut two = open(cluster.service(), &cached(id, Policy::Off), "two");
            assert_eq!(take(&mut two, 10), first(10), "{mechanism:?}");
            let stats = cluster.workers[0].server().cache();
            assert!(
                stats.misses >= 10 && stats.hits >= 10 && stats.bytes > 0,
                "{stats:?}"
            );
        }
    });
}

/// Within a process, all trainers view the same memory of the worker, without a copy for each trainer.
#[test]
fn local_trainers_view_the_same_memory() {
    watched("same memory", || {
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        let dataset = cluster.service().register(endless(), None).expect("registered");
        let request = cached(dataset, Policy::Off);
        let read = |id| {
            let reader = open(cluster.service(), &request, id);
            reader
                .take(50)
                .map(|element| element.expect("an element"))
                .collect::<Vec<_>>()
        };
        let (ones, twos, threes) = (read("one"), read("two"), read("three"));
        for ((one, two), three) in ones.iter().zip(&twos).zip(&threes) {
            let place = one.slot().as_ptr();
            assert_eq!((two.slot().as_ptr(), three.slot().as_ptr()), (place, place));
        }
        assert_eq!(ones.len(), 50);
    });
}

/// `testDisableCrossTrainerCacheByDefault`
#[test]
fn without_the_cache_elements_have_one_reader() {
    watched("no cache", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(endless(), None).expect("registered");
        let request = ReadRequest::new(dataset, Policy::Off).named("job");
        let job = cluster.service().job(&request).expect("a job");
        let config = ReaderConfig {
            trainer_id: None,
            ..trainer("nobody")
        };
        let mut one = cluster.service().read(job, 0, &config).expect("a reader");
        assert_eq!(take(&mut one, 10), first(10));
        let mut two = cluster.service().read(job, 0, &config).expect("a reader");
        assert!(take(&mut two, 1)[0] >= 10);
    });
}

/// `testSlowClientSkipsData`
#[test]
fn a_late_trainer_skips_dropped_elements() {
    watched("late", || {
        for mechanism in MECHANISMS {
            let cluster = keeping(mechanism, 500);
            let dataset = cluster.service().register(endless(), None).expect("registered");
            let request = cached(dataset, Policy::Off);
            let mut one = open(cluster.service(), &request, "one");
            assert_eq!(take(&mut one, 200), first(200));
            let mut two = open(cluster.service(), &request, "two");
            let late = take(&mut two, 200);
            assert!(
                late[0] > 0 && late.is_sorted_by(|one, next| one < next),
                "{late:?}"
            );
            assert!(cluster.workers[0].server().cache().bytes <= 500);
        }
    });
}

/// `testShuffleDataset`
#[test]
fn trainers_share_one_shuffle() {
    watched("shuffled", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster
            .service()
            .register(endless().shuffle(100, None), None)
            .expect("registered");
        let request = cached(dataset, Policy::Off);
        let one = take(&mut open(cluster.service(), &request, "one"), 10);
        let two = take(&mut open(cluster.service(), &request, "two"), 10);
        assert_eq!(one, two);
        assert_ne!(one, first(10));
    });
}

/// A new reader of a trainer continues where the trainer's previous reader stopped (`testSameTrainerID`,
/// `testMultipleIterationsForOneDatasetGraphMode`).
#[test]
fn readers_of_one_trainer_share_its_place() {
    watched("one trainer", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(endless(), None).expect("registered");
        let request = cached(dataset, Policy::Off);
        let thrice = |id: &str| {
            let readings = (0..3).map(|_| take(&mut open(cluster.service(), &request, id), 10));
            readings.collect::<Vec<_>>()
        };
        let ones = thrice("one");
        assert_eq!(ones[0], first(10));
        assert!(ones[1][0] >= 10 && ones[2][0] >= 20, "{ones:?}");
        let ones: BTreeSet<i64> = ones.concat().into_iter().collect();
        assert_eq!(ones.len(), 30);
        let twos: BTreeSet<i64> = thrice("two").concat().into_iter().collect();
        assert_eq!(twos.len(), 30);
        assert!(!ones.is_disjoint(&twos));

        // If two readers of a trainer read at the same time, each element goes to one of them.
        let mut pair = ["pair"; 2].map(|id| open(cluster.service(), &request, id));
        let mut both = BTreeSet::new();
        for turn in 0..100 {
            let element = take(&mut pair[turn % 2], 1)[0];
            assert!(both.insert(element), "{element} came twice");
        }
    });
}

/// `testDifferentJobNames`
#[test]
fn each_job_has_a_cache_of_its_own() {
    watched("two jobs", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(endless(), None).expect("registered");
        for job in ["job 1", "job 2"] {
            let request = cached(dataset.clone(), Policy::Off).named(job);
            let mut reader = open(cluster.service(), &request, "one");
            assert_eq!(take(&mut reader, 10), first(10), "{job}");
        }
        assert_eq!(cluster.workers[0].server().cache().tasks, 2);
    });
}

/// A produced split counts as done, so that no split is held for trainers (`testDynamicSharding`; C13.3,
/// D8.5).
#[test]
fn trainers_share_what_was_dealt_out() {
    watched("dynamic", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        // The dataset has many splits, because each pass over its source is a split.
        let dataset = Dataset::range(0, 10, 1).repeat(None);
        let dataset = cluster.service().register(dataset, None).expect("registered");
        let request = cached(dataset, Policy::Dynamic);
        let one = take(&mut open(cluster.service(), &request, "one"), 100);
        let two = take(&mut open(cluster.service(), &request, "two"), 100);
        let (one, two): (BTreeSet<_>, BTreeSet<_>) = (one.into_iter().collect(), two.into_iter().collect());
        assert!(!one.is_disjoint(&two));
        eventually("splits are done without a reader's word", &true, || {
            let status = cluster.service().status().expect("a status");
            status.iterations[0].splits_done >= 8
        });
    });
}

/// Trainers share elements with every compression, and without one (`testNoCompression`).
#[test]
fn trainers_share_compressed_and_plain_elements_alike() {
    watched("compression", || {
        for compression in [Compression::None, Compression::Lz4, Compression::Auto] {
            let functions = vec![Functions::new()];
            let cluster =
                Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), |config| {
                    config.server.compression = compression;
                });
            let dataset = cluster
                .service()
                .register(endless().batch(100, false), None)
                .expect("registered");
            let request = cached(dataset, Policy::Off);
            for id in ["one", "two"] {
                let mut reader = open(cluster.service(), &request, id);
                assert_eq!(take(&mut reader, 10), first(1000), "{id}");
            }
        }
    });
}

/// `testRequiresJobName`, `testRequiresInfiniteDataset`, `testMultipleIterationsForOneDatasetEagerMode`,
/// `testNamedJobMismatch`, `testRequiresNonEmptyTrainerID`; C13.1, C13.2.
#[test]
fn missing_arguments_are_named() {
    watched("refusals", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let service = cluster.service();
        let dataset = service.register(endless(), None).expect("registered");
        let request = cached(dataset.clone(), Policy::Off);
        let nameless = ReadRequest {
            job_name: None,
            ..request.clone()
        };
        refused(service.job(&nameless), "job_name");
        for stop in [0, 10] {
            let finite = service
                .register(Dataset::range(0, stop, 1), None)
                .expect("registered");
            refused(service.job(&cached(finite, Policy::Off)), "infinite");
        }
        let coordinated = ReadRequest {
            num_consumers: Some(2),
            ..request.clone()
        };
        refused(service.job(&coordinated), "num_consumers");
        let job = service.job(&request).expect("a job");
        let plain = ReadRequest::new(dataset, Policy::Off);
        refused(
            service.job(&plain.clone().named("job")),
            "cross-trainer cache is true, not false",
        );
        refused(service.read(job, 1, &trainer("one")), "repetition 1");
        let too_long = "x".repeat(257);
        for id in [None, Some(""), Some(too_long.as_str())] {
            let config = ReaderConfig {
                trainer_id: id.map(str::to_owned),
                ..ReaderConfig::default()
            };
            refused(service.read(job, 0, &config), "trainer_id");
        }
        let job = service.job(&plain).expect("a job");
        refused(service.read(job, 0, &trainer("one")), "no cross-trainer cache");
    });
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, ServiceError>, part: &str) {
    let Err(ServiceError::Dispatcher(error)) = outcome else {
        panic!("{part}: {outcome:?}")
    };
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    assert!(error.message.contains(part), "{part}: {error}");
}

/// A process that does not know the job is refused by the workers (D8.1). `testCompressionMismatch` has no
/// counterpart, because the compression is not part of a dataset.
#[test]
fn workers_refuse_nameless_trainers_too() {
    watched("no trainer", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(endless(), None).expect("registered");
        let job = cluster
            .service()
            .job(&cached(dataset, Policy::Off))
            .expect("a job");
        let other =
            Service::connect(&cluster.key, &cluster.address, ServiceConfig::default()).expect("another");
        let mut reader = other.read(job, 0, &ReaderConfig::default()).expect("a reader");
        let error = reader.next_element().expect_err("refused");
        assert!(
            matches!(&error, ReadError::Refused { reason, .. } if reason.contains("trainer_id")),
            "{error}"
        );
        drop(reader);
        other.close();
    });
}

/// Every trainer receives the failure, and the cache keeps no element of the failed task (`Errors`,
/// `CacheSizeIsTooSmall`; D8.4).
#[test]
fn failures_reach_every_trainer() {
    watched("failures", || {
        let failing = Functions::new().with_map("fails", |_, input| {
            let call = |value: Value| match value.first().and_then(|tensor| tensor.as_i64()) {
                Some(10) => Err("ten is right out".into()),
                _ => Ok(value),
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let failing_map = endless().map_declared("fails", Params::none(), number());
        for (dataset, parts) in [
            (failing_map, ["ten is right out", ""]),
            (endless().batch(1000, false), [" 8128 bytes", " 4000 "]),
        ] {
            let cluster = Cluster::start_with(
                Mechanism::Quic,
                vec![failing.clone()],
                &EndpointConfig::default(),
                |config| config.cross_trainer_cache_bytes = Some(4000),
            );
            let dataset = cluster.service().register(dataset, None).expect("registered");
            let request = cached(dataset, Policy::Off);
            let job = cluster.service().job(&request).expect("a job");
            for id in ["one", "two"] {
                let mut reader = cluster.service().read(job, 0, &trainer(id)).expect("a reader");
                let error = loop {
                    match reader.next_element() {
                        Ok(Some(_)) => {}
                        Ok(None) => panic!("{id}: it ended"),
                        Err(error) => break error.to_string(),
                    }
                };
                assert!(parts.iter().all(|part| error.contains(part)), "{id}: {error}");
            }
        }
    });
}

/// A dataset of unknown size turns out to be finite, which is an error (`CrossTrainerCacheSuccess`; D8.4).
#[test]
fn a_finite_cached_dataset_is_an_error() {
    watched("end", || {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("one"), "").expect("written");
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let files = Dataset::files(format!("{}/*", directory.path().display()));
        let dataset = cluster.service().register(files, None).expect("registered");
        let mut reader = open(cluster.service(), &cached(dataset, Policy::Off), "one");
        assert!(reader.next_element().expect("one file").is_some());
        let error = reader.next_element().expect_err("no more").to_string();
        assert!(error.contains("requires an infinite dataset"), "{error}");
    });
}

/// `cross_trainer_cache_ft_test :: testDispatcherRestart`
#[test]
fn a_dispatcher_that_is_killed_costs_trainers_nothing() {
    watched("dispatcher killed", || {
        let (key, key_text) = fresh_key();
        let directory = tempfile::tempdir().expect("a directory");
        let dispatcher = Mortal::start(&key_text, directory.path(), &[]);
        let worker = Worker::start(&key, WorkerConfig::new(&dispatcher.address)).expect("a worker");
        let service =
            Service::connect(&key, &dispatcher.address, ServiceConfig::default()).expect("a trainer's side");
        let dataset = service.register(endless(), None).expect("registered");
        let request = cached(dataset, Policy::Off);
        let mut one = open(&service, &request, "one");
        assert_eq!(take(&mut one, 100), first(100));
        dispatcher.kill_and_revive();
        assert_eq!(take(&mut one, 100), (100..200).collect::<Vec<_>>());
        let mut two = open(&service, &request, "two");
        assert_eq!(take(&mut two, 200), first(200));
        drop((one, two));
        service.close();
        worker.stop().expect("a clean exit");
    });
}

#[test]
fn trainers_get_half_of_a_workers_memory() {
    let (key, _) = fresh_key();
    let config = WorkerConfig {
        pool_bytes: 1 << 20,
        cross_trainer_cache_bytes: Some(1 << 20),
        ..WorkerConfig::new("127.0.0.1:1")
    };
    let error = Worker::start(&key, config).expect_err("too much").to_string();
    let parts = ["cross_trainer_cache_bytes is 1048576", "524288", "pool_bytes"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

/// Runs two commands that read through the cache, as a user would.
#[test]
fn two_trainer_commands_print_one_digest() {
    watched("commands", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let digest = |id: &str| {
            let arguments = [
                "read",
                "--dispatcher",
                &cluster.address,
                "--range",
                "1000",
                "--batch",
                "0",
                "--steps",
                "500",
                "--sharding",
                "off",
                "--job-name",
                "search",
                "--trainer-id",
                id,
            ];
            let printed = finish(millstream(&cluster.key_text, &arguments));
            let text = printed.stdout;
            assert!(text.contains("500 elements"), "{text}");
            text.split("digest ").nth(1).expect("a digest").trim().to_owned()
        };
        assert_eq!(digest("one"), digest("two"));
    });
}
