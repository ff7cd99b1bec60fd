//! The rows of cross_trainer_cache_test and cross_trainer_cache_ft_test: trainers that share the elements
//! that workers have computed.

use std::collections::BTreeSet;

use millstream::client::{MaxOutstanding, Reader};
use millstream::control::{Code, DatasetId, Policy};
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::{Dataset, Options, Travel};
use millstream::{Service, ServiceConfig, ServiceError, Worker, WorkerConfig};

use super::harness::{Distributed, distribute, from_id, range, refusal, take};
use crate::support::cluster::{Cluster, fresh_key};
use crate::support::links::Mechanism;
use crate::support::mortal::Mortal;
use crate::support::watched;

/// Returns the dataset that all trainers read.
fn endless() -> Dataset {
    range(10_000_000).repeat(None)
}

/// Makes a trainer read the job "job" through the cache.
fn cached<'a>(distributed: Distributed<'a>, trainer: Option<&str>) -> Distributed<'a> {
    let mut cached = distributed.named("job");
    cached.request.cross_trainer_cache = true;
    cached.config.trainer_id = trainer.map(str::to_owned);
    // With few outstanding elements, a trainer takes little more than it reads.
    cached.config.max_outstanding = MaxOutstanding::Elements(4);
    cached
}

/// Registers and distributes a dataset, as each trainer of a job does (C2.3).
fn shared(service: &Service, dataset: Dataset, policy: Policy) -> Distributed<'_> {
    distribute(service, dataset, policy)
}

/// Returns a trainer's reader of an endless range.
fn trainer(service: &Service, id: &str) -> Reader {
    cached(shared(service, endless(), Policy::Off), Some(id)).reader()
}

fn first(count: i64) -> Vec<i64> {
    (0..count).collect()
}

fn set(numbers: Vec<i64>) -> BTreeSet<i64> {
    numbers.into_iter().collect()
}

/// Checks that the outcome is a refusal that blames `part` of the request.
fn invalid<T>(outcome: Result<T, ServiceError>, part: &str) {
    let error = refusal(outcome);
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    assert!(error.message.contains(part), "{part}: {error}");
}

#[test]
fn cross_trainer_cache_test__enable_cross_trainer_cache() {
    watched("two trainers", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for id in ["Trainer 1", "Trainer 2"] {
            assert_eq!(take(&mut trainer(cluster.service(), id), 10), first(10), "{id}");
        }
    });
}

#[test]
fn cross_trainer_cache_test__from_dataset_id() {
    watched("from id", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let id = DatasetId::new("dataset_id").expect("an id");
        let registered = cluster.service().register(endless(), Some(id.clone()));
        assert_eq!(registered.expect("registered"), id);
        for trainer in ["Trainer 1", "Trainer 2"] {
            let distributed = from_id(cluster.service(), id.clone(), Policy::Off);
            let mut reader = cached(distributed, Some(trainer)).reader();
            assert_eq!(take(&mut reader, 10), first(10), "{trainer}");
        }
    });
}

#[test]
fn cross_trainer_cache_test__disable_cross_trainer_cache_by_default() {
    watched("no cache", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let plain = || {
            let mut plain = shared(cluster.service(), endless(), Policy::Off).named("job");
            plain.config.max_outstanding = MaxOutstanding::Elements(4);
            plain.reader()
        };
        let (mut one, mut two) = (plain(), plain());
        assert_eq!(take(&mut one, 10), first(10));
        assert!(take(&mut two, 1)[0] >= 10);
    });
}

#[test]
fn cross_trainer_cache_test__slow_client_skips_data() {
    watched("slow", || {
        let functions = vec![Functions::new()];
        let small = |config: &mut WorkerConfig| config.cross_trainer_cache_bytes = Some(500);
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), small);
        let mut one = trainer(cluster.service(), "Trainer 1");
        assert_eq!(take(&mut one, 200), first(200));
        let late = take(&mut trainer(cluster.service(), "Trainer 2"), 200);
        assert!(
            late.len() == 200 && late[0] > 0 && late.is_sorted_by(|one, next| one < next),
            "{late:?}"
        );
    });
}

#[test]
fn cross_trainer_cache_test__shuffle_dataset() {
    watched("shuffled", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let read = |id| {
            let shuffled = shared(cluster.service(), endless().shuffle(100, None), Policy::Off);
            take(&mut cached(shuffled, Some(id)).reader(), 10)
        };
        let one = read("Trainer 1");
        assert_eq!(read("Trainer 2"), one);
        assert_ne!(one, first(10));
    });
}

#[test]
fn cross_trainer_cache_test__same_trainer_id() {
    watched("one trainer", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut one = trainer(cluster.service(), "Trainer ID");
        assert_eq!(take(&mut one, 10), first(10));
        let mut two = trainer(cluster.service(), "Trainer ID");
        assert!(take(&mut two, 1)[0] >= 10);
    });
}

#[test]
fn cross_trainer_cache_test__different_job_names() {
    watched("two jobs", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for (job, id) in [("job1", "Trainer 1"), ("job2", "Trainer 2")] {
            let distributed = shared(cluster.service(), endless(), Policy::Off);
            let mut reader = cached(distributed, Some(id)).named(job).reader();
            assert_eq!(take(&mut reader, 10), first(10), "{job}");
        }
    });
}

#[test]
fn cross_trainer_cache_test__dynamic_sharding() {
    watched("dynamic", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let read = |id| {
            let distributed = shared(cluster.service(), endless(), Policy::Dynamic);
            set(take(&mut cached(distributed, Some(id)).reader(), 100))
        };
        let (one, two) = (read("Trainer 1"), read("Trainer 2"));
        assert!(!one.is_disjoint(&two), "{one:?} {two:?}");
    });
}

/// Returns the range in batches, with this compression.
fn travelling(travel: Travel) -> Dataset {
    endless().batch(100, false).with_options(Options {
        compression: Some(travel),
        ..Options::default()
    })
}

#[test]
fn cross_trainer_cache_test__no_compression() {
    watched("not compressed", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for id in ["Trainer 1", "Trainer 2"] {
            let plain = shared(cluster.service(), travelling(Travel::Plain), Policy::Off);
            assert_eq!(
                take(&mut cached(plain, Some(id)).reader(), 10),
                first(1000),
                "{id}"
            );
        }
    });
}

/// Upstream's second trainer fails when it cannot decode an element. This service refuses the trainer
/// earlier, because neither an id nor a job name can have two datasets.
#[test]
fn cross_trainer_cache_test__compression_mismatch() {
    watched("compressed and not", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let service = cluster.service();
        let id = DatasetId::new("shared").expect("an id");
        let registered = service.register(travelling(Travel::Lz4), Some(id.clone()));
        let compressed = from_id(service, registered.expect("registered"), Policy::Off);
        let mut one = cached(compressed, Some("Trainer 1")).reader();
        assert_eq!(take(&mut one, 10), first(1000));
        invalid(
            service.register(travelling(Travel::Plain), Some(id)),
            "the compression is lz4, not none",
        );
        let plain = distribute(service, travelling(Travel::Plain), Policy::Off);
        invalid(
            cached(plain, Some("Trainer 2")).iterate(),
            "dataset is shared, not 1000",
        );
    });
}

#[test]
fn cross_trainer_cache_test__requires_job_name() {
    watched("no name", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut nameless = cached(shared(cluster.service(), endless(), Policy::Off), Some("Trainer"));
        nameless.request.job_name = None;
        invalid(nameless.iterate(), "needs a job_name");
    });
}

#[test]
fn cross_trainer_cache_test__requires_infinite_dataset() {
    watched("finite", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for count in [0, 10] {
            let distributed = distribute(cluster.service(), range(count), Policy::Off);
            invalid(
                cached(distributed, Some("Trainer")).iterate(),
                "needs an infinite dataset",
            );
        }
    });
}

#[test]
fn cross_trainer_cache_test__multiple_iterations_for_one_dataset_eager_mode() {
    watched("two passes", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let distributed = shared(cluster.service(), endless(), Policy::Off);
        let distributed = cached(distributed, Some("Trainer"));
        assert_eq!(take(&mut distributed.reader(), 10), first(10));
        invalid(
            distributed.iterate(),
            "repetition 1 of the job \"job\" cannot be read",
        );
    });
}

/// Each read of a graph starts from the beginning, like a dataset object that is created again.
#[test]
fn cross_trainer_cache_test__multiple_iterations_for_one_dataset_graph_mode() {
    watched("three readings", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let thrice = |id| {
            let readings = (0..3).flat_map(|_| take(&mut trainer(cluster.service(), id), 10));
            set(readings.collect())
        };
        let (one, two) = (thrice("Trainer 1"), thrice("Trainer 2"));
        assert_eq!((one.len(), two.len()), (30, 30), "{one:?} {two:?}");
        assert!(!one.is_disjoint(&two), "{one:?} {two:?}");
    });
}

#[test]
fn cross_trainer_cache_test__named_job_mismatch() {
    watched("with and without", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut one = trainer(cluster.service(), "Trainer 1");
        assert_eq!(take(&mut one, 10), first(10));
        let without = shared(cluster.service(), endless(), Policy::Off).named("job");
        invalid(without.iterate(), "cross-trainer cache is true, not false");
    });
}

#[test]
fn cross_trainer_cache_test__requires_non_empty_trainer_id() {
    watched("no trainer", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        for id in [None, Some("")] {
            let distributed = shared(cluster.service(), endless(), Policy::Off);
            invalid(cached(distributed, id).iterate(), "trainer_id");
        }
    });
}

#[test]
fn cross_trainer_cache_ft_test__dispatcher_restart() {
    watched("dispatcher restart", || {
        let (key, key_text) = fresh_key();
        let directory = tempfile::tempdir().expect("a directory");
        let dispatcher = Mortal::start(&key_text, directory.path(), &[]);
        let worker = Worker::start(&key, WorkerConfig::new(&dispatcher.address)).expect("a worker");
        let service = Service::connect(&key, &dispatcher.address, ServiceConfig::default());
        let service = service.expect("a trainer's side");
        let mut reader = trainer(&service, "Trainer ID");
        assert_eq!(take(&mut reader, 100), first(100));
        dispatcher.kill_and_revive();
        assert_eq!(take(&mut reader, 100), (100..200).collect::<Vec<_>>());
        drop(reader);
        service.close();
        worker.stop().expect("a clean exit");
    });
}
