//! data_service_ops_test: reading of distributed datasets.
//!
//! `data_service_ops_datasets` tests registration, ids, and the elements that datasets yield.
//! `data_service_ops_unused` tests the removal of unused records.

use std::sync::Arc;
use std::sync::mpsc::channel;

use millstream::client::{Reader, ReaderConfig};
use millstream::control::{Code, DispatcherConfig, Policy, UnknownPolicy};
use millstream::dataplane::transport::Compression;
use millstream::element::{Dtype, ElementSpec, TensorSpec};
use millstream::link::{EndpointConfig, LoadedKey};
use millstream::pipeline::exec::{
    BoxError, Cancel, ExecError, Functions, PreparedFlatMap, PreparedMap, Source, Tensor, Value,
};
use millstream::pipeline::graph::{ConstantTensor, Dataset, Options, Params};
use millstream::{
    LocalReader, ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig, functions,
    service_reader,
};
use parking_lot::Mutex;

use super::harness::{Distributed, distribute, from_id, range, refusal, sorted, times};
use crate::support::cluster::{Cluster, fresh_key, number, numbers, prompt};
use crate::support::links::Mechanism;
use crate::support::process::{finish, millstream};
use crate::support::watched;

fn cluster(workers: usize) -> Cluster {
    Cluster::plain(Mechanism::Memory, workers)
}

/// Returns the numbers from 0 to `count` (exclusive), in order.
fn once(count: i64) -> Vec<i64> {
    (0..count).collect()
}

/// Returns the next number of a reader.
fn next(reader: &mut Reader) -> Option<i64> {
    let element = reader.next_element().expect("the reader proceeds");
    element.map(|element| numbers(&element)[0])
}

#[test]
fn data_service_ops_test__distribute_basic() {
    watched("basic", || {
        let folder = tempfile::tempdir().expect("a directory");
        // Only the directory decides which records survive a restart.
        for work_dir in [Some(folder.path().to_owned()), None] {
            let config = DispatcherConfig { work_dir, ..prompt() };
            let cluster = Cluster::plain_with(Mechanism::Memory, config, 1);
            let distributed = distribute(cluster.service(), range(10), Policy::Off);
            assert_eq!(distributed.numbers(), once(10));
        }
    });
}

/// The compression is a setting of a worker, so the worker refuses an invalid one.
#[test]
fn data_service_ops_test__distribute_invalid_compression() {
    let worker = ["worker", "--dispatcher", "127.0.0.1:9", "--compression", "foo"];
    let finished = finish(millstream(&fresh_key().1, &worker));
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(
        finished.stderr.contains("invalid value 'foo' for '--compression"),
        "{finished:?}"
    );
}

#[test]
fn data_service_ops_test__distribute_compression() {
    watched("compression", || {
        for compression in [Compression::None, Compression::Lz4, Compression::Auto] {
            let functions = vec![Functions::new()];
            let cluster =
                Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), |config| {
                    config.server.compression = compression;
                });
            let distributed = distribute(cluster.service(), range(10), Policy::Off);
            assert_eq!(distributed.numbers(), once(10), "{compression:?}");
        }
    });
}

#[test]
fn data_service_ops_test__multiple_epochs() {
    watched("multiple epochs", || {
        let cluster = cluster(1);
        let distributed = distribute(cluster.service(), range(3), Policy::Off);
        for _ in 0..10 {
            assert_eq!(distributed.numbers(), [0, 1, 2]);
        }
    });
}

#[test]
fn data_service_ops_test__repeated_dataset() {
    watched("repeated", || {
        let cluster = cluster(1);
        let id = cluster.service().register(range(10), None).expect("registered");
        let request = ReadRequest::new(id, Policy::Off);
        let distributed = service_reader::dataset(cluster.service(), &request, &ReaderConfig::default())
            .expect("it is known");
        let found = in_the_trainer(
            distributed.repeat(Some(5)),
            functions::builtin(Some(&cluster.key)),
        );
        assert_eq!(found, once(10).repeat(5));
    });
}

/// Returns the numbers that a dataset yields in this process.
fn in_the_trainer(dataset: Dataset, functions: Functions) -> Vec<i64> {
    let reader = LocalReader::open(dataset, Arc::new(functions), 1, 0).expect("it opens");
    let number = |value: Value| value.first().and_then(Tensor::as_i64).expect("a number");
    reader
        .map(|value| number(value.expect("the reader proceeds")))
        .collect()
}

#[test]
fn data_service_ops_test__concurrent_epoch() {
    watched("concurrent epochs", || {
        let cluster = cluster(1);
        let datasets: Vec<Distributed<'_>> = (0..3)
            .map(|_| distribute(cluster.service(), range(10), Policy::Off))
            .collect();
        let mut readers: Vec<Reader> = datasets.iter().map(Distributed::reader).collect();
        for step in (0..10).map(Some).chain([None]) {
            for reader in &mut readers {
                assert_eq!(next(reader), step);
            }
        }
    });
}

#[test]
fn data_service_ops_test__multi_worker() {
    watched("three workers", || {
        let cluster = cluster(3);
        let distributed = distribute(cluster.service(), range(10), Policy::Off);
        assert_eq!(distributed.sorted(), times(3, 10));
    });
}

#[test]
fn data_service_ops_test__no_sharding_policy() {
    watched("no sharding", || {
        let cluster = cluster(1);
        let distributed = distribute(cluster.service(), range(20), Policy::Off);
        assert_eq!(distributed.numbers(), once(20));
    });
}

#[test]
fn data_service_ops_test__batch_drops_all_elements() {
    watched("nothing is left", || {
        let cluster = cluster(2);
        let distributed = distribute(cluster.service(), range(10).batch(1000, true), Policy::Off);
        assert_eq!(distributed.numbers(), once(0));
    });
}

#[test]
fn data_service_ops_test__explicit_protocol_from_dataset_id() {
    watched("both mechanisms", || {
        for mechanism in [Mechanism::Quic, Mechanism::Memory] {
            let cluster = Cluster::plain(mechanism, 1);
            let id = cluster.service().register(range(10), None).expect("registered");
            assert_eq!(from_id(cluster.service(), id, Policy::Off).numbers(), once(10));
        }
    });
}

#[test]
fn data_service_ops_test__different_job_names() {
    watched("two names", || {
        let cluster = cluster(1);
        for name in ["job1", "job2"] {
            let distributed = distribute(cluster.service(), range(10), Policy::Off).named(name);
            assert_eq!(distributed.numbers(), once(10), "{name}");
        }
    });
}

/// A name belongs to one dataset, so the second object reads the dataset that the first object registered.
#[test]
fn data_service_ops_test__shared_job_name_multi_iteration() {
    watched("shared passes", || {
        let cluster = cluster(1);
        let id = cluster.service().register(range(10), None).expect("registered");
        let object = || from_id(cluster.service(), id.clone(), Policy::Off).named("job_name");
        let (first, second) = (object(), object());
        assert_eq!(first.numbers(), once(10));
        assert_eq!(second.numbers(), once(0), "the same pass, which is over");
        assert_eq!(second.numbers(), once(10), "its second one");
        assert_eq!(first.numbers(), once(0));
    });
}

#[test]
fn data_service_ops_test__shared_job_name_multiple_epochs() {
    watched("named epochs", || {
        let cluster = cluster(1);
        let distributed = distribute(cluster.service(), range(10), Policy::Off).named("job_name");
        for _ in 0..5 {
            assert_eq!(distributed.numbers(), once(10));
        }
    });
}

#[test]
fn data_service_ops_test__empty_job_name_distribute() {
    watched("no name", || {
        let cluster = cluster(1);
        let distributed = distribute(cluster.service(), range(10), Policy::Off).named("");
        is_no_name(distributed.iterate());
    });
}

#[test]
fn data_service_ops_test__empty_job_name_from_dataset_id() {
    watched("no name in a dataset", || {
        let cluster = cluster(1);
        let id = cluster.service().register(range(10), None).expect("registered");
        let request = ReadRequest::new(id, Policy::Off).named_in_dataset("");
        is_no_name(cluster.service().job(&request));
    });
}

fn is_no_name<T>(outcome: Result<T, ServiceError>) {
    let error = refusal(outcome);
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    assert!(error.to_string().contains("a job's name has 1 to"), "{error}");
}

#[test]
fn data_service_ops_test__distribute_empty_address() {
    let error = Service::connect(&fresh_key().0, "", ServiceConfig::default()).expect_err("no address");
    assert!(matches!(error, ServiceError::Address(_)), "{error}");
    assert!(error.to_string().starts_with("dispatcher address: "), "{error}");
}

#[test]
fn data_service_ops_test__distribute_invalid_processing_mode() {
    let error: UnknownPolicy = "invalid".parse::<Policy>().expect_err("no policy");
    assert!(
        error
            .to_string()
            .starts_with("`invalid` is not a sharding policy"),
        "{error}"
    );
}

#[test]
fn data_service_ops_test__zip_different_processing_modes_datasets_shared_job_name() {
    watched("two policies, one name", || {
        let cluster = cluster(1);
        let id = cluster.service().register(range(10), None).expect("registered");
        let object = |policy| from_id(cluster.service(), id.clone(), policy).named("job_name");
        let (off, dynamic) = (object(Policy::Off), object(Policy::Dynamic));
        let _reader = off.reader();
        let error = refusal(dynamic.iterate());
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
        let said =
            "the job \"job_name\" exists already and is different: sharding policy is off, not dynamic";
        assert!(error.to_string().contains(said), "{error}");
    });
}

/// A source of one element, which waits before it yields the element.
struct Delayed<W> {
    element: Option<Value>,
    wait: W,
}

impl<W: Fn() + Send> Source for Delayed<W> {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        if self.element.is_some() {
            (self.wait)();
        }
        Ok(self.element.take())
    }
}

#[test]
fn data_service_ops_test__apply_determinism_option() {
    watched("not deterministic", || {
        const ELEMENTS: i64 = 10;
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let delaying = Functions::new().with_flat_map("delaying", move |_, input| {
            let gate = gate.clone();
            let call = move |element: Value, _: &Cancel| -> Result<Box<dyn Source>, BoxError> {
                let is_first = element.first().and_then(Tensor::as_i64) == Some(0);
                let gate = is_first.then(|| gate.clone());
                let wait = move || {
                    if let Some(gate) = &gate {
                        // Receiving fails when the test drops the other end.
                        let _ = gate.lock().recv();
                    }
                };
                Ok(Box::new(Delayed {
                    element: Some(element),
                    wait,
                }))
            };
            Ok(PreparedFlatMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let cluster = Cluster::start(Mechanism::Memory, vec![delaying]);
        let dataset = range(ELEMENTS)
            .interleave_declared(10, 1, "delaying", Params::none(), number())
            .parallel(2)
            .with_options(Options {
                deterministic: Some(false),
                ..Options::default()
            });
        let distributed = distribute(cluster.service(), dataset, Policy::Off);
        let mut reader = distributed.reader();
        let others: Vec<i64> = (1..ELEMENTS).filter_map(|_| next(&mut reader)).collect();
        assert_eq!(sorted(others), (1..ELEMENTS).collect::<Vec<_>>(), "nobody waits");
        drop(release);
        assert_eq!(next(&mut reader), Some(0));
        assert_eq!(next(&mut reader), None);
    });
}

#[test]
fn data_service_ops_test__distribute_from_interleave() {
    watched("interleave", || {
        let cluster = cluster(1);
        let connected = Service::connect(&cluster.key, &cluster.address, ServiceConfig::default());
        let service = Arc::new(connected.expect("a trainer's side"));
        let registered = Functions::new().with_flat_map("distribute", move |_, input| {
            let service = service.clone();
            let call = move |value: Value, cancel: &Cancel| -> Result<Box<dyn Source>, BoxError> {
                let ten = 10 * value.first().and_then(Tensor::as_i64).ok_or("no number")?;
                let inner = distribute(&service, Dataset::range(ten, ten + 2, 1), Policy::Off);
                Ok(service_reader::source(inner.iterate()?, cancel))
            };
            Ok(PreparedFlatMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let interleaved = range(2).interleave_registered(2, 1, "distribute", Params::none());
        assert_eq!(in_the_trainer(interleaved, registered), [0, 10, 1, 11]);
    });
}

/// Adds a worker that may read services with this key, and that has a function for the length of a string.
fn add_reading_worker(cluster: &mut Cluster, key: &LoadedKey) {
    let functions = functions::builtin(Some(key)).with_map("length", |_, _| {
        let call = |value: Value| {
            let text = value.first().and_then(Tensor::contiguous).ok_or("no string")?;
            Ok(Value::from_iter([Tensor::i64(text.len() as i64)]))
        };
        Ok(PreparedMap {
            output: number(),
            call: Arc::new(call),
        })
    });
    let config = WorkerConfig {
        functions: Arc::new(functions),
        threads: Some(2),
        ..WorkerConfig::new(&cluster.address)
    };
    let worker = Worker::start(&cluster.key, config).expect("a worker");
    cluster.workers.push(worker);
}

/// Returns the dataset that reads `dataset` through the service.
fn distributed(cluster: &Cluster, dataset: Dataset) -> Dataset {
    let id = cluster.service().register(dataset, None).expect("registered");
    let request = ReadRequest::new(id, Policy::Off);
    service_reader::dataset(cluster.service(), &request, &ReaderConfig::default()).expect("it is known")
}

#[test]
fn data_service_ops_test__double_distribute() {
    watched("double", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 0);
        let key = cluster.key.clone();
        add_reading_worker(&mut cluster, &key);
        let once_distributed = distributed(&cluster, range(10));
        let twice = distribute(cluster.service(), once_distributed, Policy::Off);
        assert_eq!(twice.numbers(), once(10));
    });
}

#[test]
fn data_service_ops_test__two_level_distribute() {
    watched("two levels", || {
        const LENGTHS: usize = 10;
        const REPEATS: usize = 5;
        const WORKERS: usize = 3;
        let below = Cluster::plain(Mechanism::Quic, WORKERS);
        let mut above = Cluster::plain(Mechanism::Quic, 0);
        add_reading_worker(&mut above, &below.key);
        let strings = (0..LENGTHS * REPEATS).map(|index| "a".repeat(index % LENGTHS));
        let spec = TensorSpec::fixed(Dtype::String, &[(LENGTHS * REPEATS) as u64]);
        let spec = ElementSpec::single(spec).expect("a vector");
        let strings = Dataset::tensor_slices(spec, vec![ConstantTensor::items(strings)]);
        let grouped = distributed(&below, strings).group_by_window(
            |element| element.map_declared("length", Params::none(), number()),
            (WORKERS * REPEATS) as u64,
            |window| window.batch(REPEATS as u64, false),
        );
        let batches: Vec<Vec<usize>> = distribute(above.service(), grouped, Policy::Off)
            .reader()
            .map(|batch| {
                let batch = batch.expect("the reader proceeds");
                let strings = batch.component(0).expect("one component").strings();
                strings.expect("strings").iter().map(<[u8]>::len).collect()
            })
            .collect();
        let mut lengths = Vec::new();
        for window in batches.chunks(WORKERS) {
            assert_eq!(window, vec![vec![window[0][0]; REPEATS]; WORKERS], "{batches:?}");
            lengths.push(window[0][0]);
        }
        lengths.sort_unstable();
        assert_eq!(lengths, (0..LENGTHS).collect::<Vec<_>>());
    });
}
