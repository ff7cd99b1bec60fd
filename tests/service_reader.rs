//! A dataset that goes on in the trainer: workers yield elements, the trainer batches them.

use std::sync::Arc;

use millstream::client::MaxOutstanding;
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::{ClusterKey, KeySource, LoadedKey};
use millstream::pipeline::exec::{Functions, Value};
use millstream::pipeline::graph::Dataset;
use millstream::{
    Dispatcher, LocalReader, ReadRequest, Service, ServiceConfig, Worker, WorkerConfig, functions,
    service_reader,
};

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
    let request = ReadRequest {
        dataset,
        policy: Policy::Dynamic,
        job_name: None,
    };

    let distributed = service_reader::dataset(&service, &request, MaxOutstanding::Elements(7)).unwrap();
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
    let request = ReadRequest {
        dataset,
        policy: Policy::Off,
        job_name: None,
    };
    let distributed = service_reader::dataset(&service, &request, MaxOutstanding::Auto).unwrap();
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
