//! Tests of datasets with further operations in the trainer: the workers yield elements, and the trainer
//! batches them.

use std::net::UdpSocket;
use std::sync::Arc;

use millstream::client::{MaxOutstanding, ReadError, ReaderConfig};
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::{ClusterKey, KeySource, LoadedKey};
use millstream::pipeline::exec::{
    Cancel, ErrorKind, ExecContext, Executor, Functions, Pool, PreparedMap, Value,
};
use millstream::pipeline::graph::{Dataset, OnError, Params};
use millstream::{
    Dispatcher, LocalReader, ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig,
    functions, service_reader,
};

use crate::support::cluster::{Cluster, number};
use crate::support::links::Mechanism;
use crate::support::{eventually, watched};

/// A tar with real pictures.
const SHARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/photos-0000.tar");

fn key() -> LoadedKey {
    let text = ClusterKey::generate().expect("there is randomness").to_text();
    KeySource::from_setting(&text).load().expect("it is a key")
}

#[test]
fn what_follows_a_service_runs_in_the_trainer() {
    let key = key();
    let functions = Arc::new(functions::builtin(Some(&key)));
    let dispatcher = Dispatcher::start(&key, None, DispatcherConfig::default(), functions.clone()).unwrap();
    let address = dispatcher.local_addr().to_string();
    let workers: Vec<Worker> = (0..2)
        .map(|_| Worker::start(&key, WorkerConfig::new(&address)).unwrap())
        .collect();
    let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
    let dataset = service.register(Dataset::range(0, 100, 1), None).unwrap();
    let request = ReadRequest::new(dataset, Policy::Dynamic);

    let distributed = service_reader::dataset(&service, &request, &outstanding(7)).unwrap();
    let once = batches(distributed.clone().batch(7, false), &functions);
    assert_eq!(
        sizes(&once),
        [[7; 14].as_slice(), &[2]].concat(),
        "the trainer's batches know no workers"
    );
    assert_eq!(sorted(once), (0..100).collect::<Vec<_>>());

    let twice = batches(distributed.repeat(Some(2)).batch(7, false), &functions);
    assert_eq!(twice.len(), 29);
    assert_eq!(
        sorted(twice),
        (0..200).map(|number| number / 2).collect::<Vec<_>>()
    );

    for worker in workers {
        worker.stop().unwrap();
    }
    dispatcher.stop().unwrap();
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let key = key();
    let functions = Arc::new(functions::builtin(Some(&key)));
    let dispatcher = Dispatcher::start(&key, None, DispatcherConfig::default(), functions).unwrap();
    let address = dispatcher.local_addr().to_string();
    let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
    let dataset = service.register(Dataset::range(0, 100, 1), None).unwrap();
    let request = ReadRequest::new(dataset, Policy::Off);
    let distributed = service_reader::dataset(&service, &request, &ReaderConfig::default()).unwrap();
    let unopened = LocalReader::open(distributed.clone(), Arc::new(functions::builtin(None)), 1, 0);
    assert!(unopened.is_err(), "nobody gave it a key");

    let stranger = Arc::new(functions::builtin(Some(&self::key())));
    let error = LocalReader::open(distributed, stranger, 1, 0)
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("key"), "{error}");
    dispatcher.stop().unwrap();
}

#[test]
fn strings_from_a_service_are_ordinary() {
    watched("strings", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let functions = Arc::new(functions::builtin(Some(&cluster.key)));
        let samples = |files: Dataset| files.webdataset(["jpg", "cls"], OnError::Raise);
        let decoded = |samples: Dataset| samples.decode_image("jpg").parse_int("cls").take(5);
        let here = decoded(samples(Dataset::files(SHARD)));
        let paths = distributed(&cluster, Dataset::files(SHARD), None);
        let sampled = distributed(&cluster, samples(Dataset::files(SHARD)), None);
        let read = |dataset| {
            let reader = LocalReader::open(dataset, functions.clone(), 1, 0).expect("it opens");
            let label = |sample: Value| sample.iter().filter_map(|tensor| tensor.as_i64()).next();
            let labels = reader.map(|sample| label(sample.expect("it is decoded")).expect("a label"));
            labels.collect::<Vec<_>>()
        };
        let promised = read(here);
        assert_eq!(promised.len(), 5);
        assert_eq!(read(decoded(samples(paths))), promised, "paths from the workers");
        assert_eq!(read(decoded(sampled)), promised, "samples from the workers");
    });
}

#[test]
fn each_named_epoch_is_its_own_pass() {
    watched("epochs", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let functions = Arc::new(functions::builtin(Some(&cluster.key)));
        let dataset = distributed(&cluster, Dataset::range(0, 100, 1), Some("shared"));
        for epoch in 0..3 {
            let reader = LocalReader::open(dataset.clone(), functions.clone(), 1, epoch).expect("it opens");
            assert_eq!(reader.count(), 100, "epoch {epoch}");
        }
    });
}

#[test]
fn a_cancelled_pipeline_waits_for_nothing() {
    watched("cancelled", || {
        let (entered, enters) = std::sync::mpsc::channel();
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let channels = Arc::new(parking_lot::Mutex::new((entered, stuck)));
        let stuck = Functions::new().with_map("stuck", move |_, input| {
            let channels = channels.clone();
            let call = move |value: Value| {
                let channels = channels.lock();
                let _ = channels.0.send(());
                // The call returns when the test drops the other end of the channel.
                let _ = channels.1.recv();
                Ok(value)
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let mut cluster = Cluster::start(Mechanism::Quic, vec![stuck]);
        let dataset = Dataset::range(0, 10, 1).map_declared("stuck", Params::none(), number());
        let dataset = distributed(&cluster, dataset, None);
        let (cancel, outcome) = execute(&cluster, dataset.clone());
        enters.recv().expect("an element is asked for");
        cancel.cancel();
        assert_eq!(outcome.join().expect("no panic"), Err(ErrorKind::Cancelled));
        drop(release);

        cluster.end_dispatcher();
        let mut silent = None;
        eventually("the dispatcher's port is free", &true, || {
            silent = UdpSocket::bind(&cluster.address).ok();
            silent.is_some()
        });
        let (cancel, outcome) = execute(&cluster, dataset);
        let mut datagram = [0; 2048];
        silent
            .expect("it is bound")
            .recv_from(&mut datagram)
            .expect("somebody knocks");
        cancel.cancel();
        assert_eq!(outcome.join().expect("no panic"), Err(ErrorKind::Cancelled));
    });
}

#[test]
fn failures_keep_their_kind_and_cause() {
    watched("kinds", || {
        let failing = Functions::new().with_map("failing", |_, input| {
            let call = |_: Value| Err("three is too many".into());
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let cluster = Cluster::start(Mechanism::Quic, vec![failing]);
        let functions = Arc::new(functions::builtin(Some(&cluster.key)));
        let dataset = Dataset::range(0, 10, 1).map_declared("failing", Params::none(), number());
        let dataset = distributed(&cluster, dataset, Some("taken")).batch(2, false);
        let first = |dataset: Dataset| {
            let mut reader = LocalReader::open(dataset, functions.clone(), 1, 0).expect("it opens");
            reader.find_map(Result::err).expect("it fails")
        };
        let failed = first(dataset);
        assert_eq!(failed.kind(), ErrorKind::UserFunction, "{failed}");
        let cause = failed.failure().cause.as_deref().expect("the reader's error");
        assert!(cause.is::<ReadError>(), "{cause}");
        let refused = first(distributed(&cluster, Dataset::range(0, 3, 1), Some("taken")).batch(2, false));
        assert_eq!(refused.kind(), ErrorKind::Caller, "{refused}");
        let cause = refused.failure().cause.as_deref().expect("the service's error");
        assert!(cause.is::<ServiceError>(), "{cause}");
    });
}

/// Returns the dataset that workers compute, for further operations in the trainer.
fn distributed(cluster: &Cluster, dataset: Dataset, job_name: Option<&str>) -> Dataset {
    let request = ReadRequest {
        job_name: job_name.map(str::to_owned),
        ..ReadRequest::new(
            cluster.service().register(dataset, None).expect("registered"),
            Policy::Dynamic,
        )
    };
    service_reader::dataset(cluster.service(), &request, &outstanding(4)).expect("known")
}

fn outstanding(elements: u64) -> ReaderConfig {
    ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(elements),
        ..ReaderConfig::default()
    }
}

/// `true` if a first element arrived, or the kind of the error.
type Outcome = Result<bool, ErrorKind>;

/// Requests a first element on a separate thread.
fn execute(cluster: &Cluster, dataset: Dataset) -> (Cancel, std::thread::JoinHandle<Outcome>) {
    let functions = Arc::new(functions::builtin(Some(&cluster.key)));
    let pool = Arc::new(Pool::new(1).expect("a thread"));
    let context = ExecContext::new(0, functions, pool);
    let cancel = context.cancel.clone();
    let graph = dataset.graph().expect("a dataset");
    let outcome = std::thread::spawn(move || {
        let mut executor = Executor::open(&graph, context).expect("it opens");
        executor
            .next()
            .map(|item| item.is_some())
            .map_err(|error| error.kind())
    });
    (cancel, outcome)
}

fn batches(dataset: Dataset, functions: &Arc<Functions>) -> Vec<Vec<i64>> {
    let reader = LocalReader::open(dataset, functions.clone(), 1, 0).expect("it opens");
    let numbers = |batch: Value| {
        let batch = batch[0].settled().expect("numbers are there");
        let (items, _) = batch.contiguous().expect("it is settled").as_chunks::<8>();
        items.iter().map(|item| i64::from_le_bytes(*item)).collect()
    };
    reader
        .map(|batch| numbers(batch.expect("the workers live")))
        .collect()
}

fn sizes(batches: &[Vec<i64>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
}

fn sorted(batches: Vec<Vec<i64>>) -> Vec<i64> {
    let mut numbers = batches.concat();
    numbers.sort_unstable();
    numbers
}
