//! Tests of services and functions that read other services. The elements of a service are a source like any
//! other, but a source without splits.

use std::sync::Arc;

use millstream::client::{Reader, ReaderConfig};
use millstream::control::{Code, DatasetId, Policy};
use millstream::element::{Dtype, ElementSpec, TensorSpec};
use millstream::link::LoadedKey;
use millstream::pipeline::exec::{
    BoxError, Cancel, Functions, PreparedFlatMap, PreparedMap, Source, Tensor, Value,
};
use millstream::pipeline::graph::{ConstantTensor, Dataset, Params};
use millstream::{
    Dispatcher, LocalReader, ReadRequest, Service, ServiceConfig, ServiceError, Worker, WorkerConfig,
    functions, service_reader,
};

use crate::support::cluster::{drain, fresh_key, number, prompt};
use crate::support::watched;

/// A service whose workers may read services with the same key. The test ends the service explicitly, because
/// a service must outlive its readers.
struct Level {
    service: Arc<Service>,
    workers: Vec<Worker>,
    dispatcher: Dispatcher,
}

impl Level {
    fn start(key: &LoadedKey, workers: usize) -> Level {
        let functions = Arc::new(with_functions(key));
        let dispatcher = Dispatcher::start(key, None, prompt(), functions.clone()).expect("a dispatcher");
        let address = dispatcher.local_addr().to_string();
        let worker = |_| {
            let config = WorkerConfig {
                functions: functions.clone(),
                threads: Some(2),
                ..WorkerConfig::new(&address)
            };
            Worker::start(key, config).expect("a worker")
        };
        let workers = (0..workers).map(worker).collect();
        let service = Service::connect(key, &address, ServiceConfig::default()).expect("a trainer's side");
        Level {
            service: Arc::new(service),
            workers,
            dispatcher,
        }
    }

    fn register(&self, dataset: Dataset) -> DatasetId {
        self.service.register(dataset, None).expect("registered")
    }

    /// Returns the dataset that reads `dataset` through this service.
    fn distributed(&self, dataset: Dataset) -> Dataset {
        self.distributed_as(dataset, None)
    }

    /// Returns the dataset that reads `dataset` through this service in a job of this name.
    fn distributed_as(&self, dataset: Dataset, job_name: Option<&str>) -> Dataset {
        let request = ReadRequest {
            job_name: job_name.map(str::to_owned),
            ..ReadRequest::new(self.register(dataset), Policy::Off)
        };
        service_reader::dataset(&self.service, &request, &ReaderConfig::default()).expect("it is known")
    }

    fn read(&self, dataset: Dataset, policy: Policy) -> Reader {
        read(&self.service, dataset, policy).expect("a reader")
    }

    fn end(self) {
        for worker in self.workers {
            worker.stop().expect("a clean exit");
        }
        drop(self.dispatcher);
    }
}

fn read(service: &Service, dataset: Dataset, policy: Policy) -> Result<Reader, ServiceError> {
    let job = service.job(&ReadRequest::new(service.register(dataset, None)?, policy))?;
    service.read(job, 0, &ReaderConfig::default())
}

/// Registers the functions `zero`, which returns 0 for every element, and `length`, which returns the length
/// of a string in bytes.
fn with_functions(key: &LoadedKey) -> Functions {
    let to_number = |call: fn(&Value) -> Option<i64>| {
        move |_: &Params, _: &ElementSpec| {
            let call = move |value: Value| {
                let made = call(&value).ok_or("no number can be made of it")?;
                Ok(Value::from_iter([Tensor::i64(made)]))
            };
            Ok(PreparedMap {
                output: number(),
                call: Arc::new(call),
            })
        }
    };
    functions::builtin(Some(key))
        .with_map("zero", to_number(|_| Some(0)))
        .with_map(
            "length",
            to_number(|value| Some(value.first()?.contiguous()?.len() as i64)),
        )
}

#[test]
fn a_services_elements_can_be_registered_again() {
    watched("double", || {
        let (key, _) = fresh_key();
        let level = Level::start(&key, 1);
        let twice = level.distributed(Dataset::range(0, 10, 1));
        let mut reader = level.read(twice, Policy::Off);
        assert_eq!(drain(&mut reader), (0..10).collect::<Vec<_>>());
        drop(reader);
        level.end();
    });
}

#[test]
fn another_service_cannot_divide_a_services_elements() {
    watched("dealt out", || {
        let (key, _) = fresh_key();
        let level = Level::start(&key, 1);
        let twice = level.distributed(Dataset::range(0, 10, 1));
        let refused = read(&level.service, twice, Policy::Dynamic).expect_err("nothing to deal out");
        let ServiceError::Dispatcher(error) = refused else {
            panic!("{refused}")
        };
        assert_eq!(error.code, Code::Unimplemented, "{error}");
        assert!(error.to_string().contains("reads another service"), "{error}");
        level.end();
    });
}

#[test]
fn one_service_groups_anothers_elements() {
    watched("two levels", || {
        const LENGTHS: usize = 10;
        const REPEATS: usize = 5;
        const WORKERS: usize = 3;
        let (key, _) = fresh_key();
        let below = Level::start(&key, WORKERS);
        let above = Level::start(&key, 1);
        let strings = (0..LENGTHS * REPEATS).map(|index| "a".repeat(index % LENGTHS));
        let spec = TensorSpec::fixed(Dtype::String, &[(LENGTHS * REPEATS) as u64]);
        let spec = ElementSpec::single(spec).expect("a vector");
        let shuffled = Dataset::tensor_slices(spec, vec![ConstantTensor::items(strings)]).shuffle(50, None);
        let grouped = below.distributed(shuffled).group_by_window(
            |element| element.map("length", Params::none()),
            (WORKERS * REPEATS) as u64,
            |window| window.batch(REPEATS as u64, false),
        );
        let mut reader = above.read(grouped, Policy::Off);
        let mut batches = Vec::new();
        while let Some(element) = reader.next_element().expect("the reader proceeds") {
            let batch = element.component(0).expect("one component");
            let strings = batch.strings().expect("strings");
            batches.push(strings.iter().map(<[u8]>::len).collect::<Vec<_>>());
        }
        drop(reader);
        above.end();
        below.end();
        assert_eq!(batches.len(), LENGTHS * WORKERS);
        let mut lengths = Vec::new();
        for window in batches.chunks(WORKERS) {
            assert!(
                window.iter().all(|batch| *batch == [window[0][0]; REPEATS]),
                "a window holds all strings of one length: {window:?}"
            );
            lengths.push(window[0][0]);
        }
        lengths.sort_unstable();
        assert_eq!(lengths, (0..LENGTHS).collect::<Vec<_>>());
    });
}

#[test]
fn an_interleave_reads_a_service_per_element() {
    watched("interleave", || {
        let (key, _) = fresh_key();
        let level = Level::start(&key, 1);
        let functions = Arc::new(with_functions(&key));
        let inner = level.distributed(Dataset::range(0, 2, 1));
        let numbers = |dataset: Dataset, functions: &Arc<Functions>| {
            let reader = LocalReader::open(dataset, functions.clone(), 1, 0).expect("it opens");
            let number = |value: Value| value.first().and_then(Tensor::as_i64).expect("a number");
            reader
                .map(|value| number(value.expect("the reader proceeds")))
                .collect::<Vec<_>>()
        };
        for threads in [1, 2] {
            let interleaved = Dataset::range(0, 2, 1)
                .interleave(2, 1, |_| inner.clone())
                .parallel(threads);
            // Every pass of the inner dataset reads a new job.
            let found = numbers(interleaved.repeat(Some(2)), &functions);
            assert_eq!(found, [0, 0, 1, 1, 0, 0, 1, 1]);
        }
        let named = level.distributed_as(Dataset::range(0, 100, 1), Some("shared"));
        let shared = Dataset::range(0, 2, 1).interleave(2, 1, |_| named);
        let mut found = numbers(shared, &functions);
        found.sort_unstable();
        assert_eq!(
            found,
            (0..100).collect::<Vec<_>>(),
            "both read one pass of the job"
        );
        let service = level.service.clone();
        let registered = with_functions(&key).with_flat_map("distributed_tens", move |_, input| {
            let service = service.clone();
            let call = move |value: Value, cancel: &Cancel| -> Result<Box<dyn Source>, BoxError> {
                let tens = 10 * value.first().and_then(Tensor::as_i64).ok_or("no number")?;
                let reader = read(&service, Dataset::range(tens, tens + 2, 1), Policy::Off)?;
                Ok(service_reader::source(reader, cancel))
            };
            Ok(PreparedFlatMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let interleaved =
            Dataset::range(0, 2, 1).interleave_registered(2, 1, "distributed_tens", Params::none());
        assert_eq!(numbers(interleaved, &Arc::new(registered)), [0, 10, 1, 11]);
        level.end();
    });
}

#[test]
fn splits_stay_out_of_windows() {
    watched("windows", || {
        let (key, _) = fresh_key();
        let level = Level::start(&key, 2);
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[3])).expect("a vector");
        let bytes: Vec<u8> = [1i64, 5, 0].iter().flat_map(|item| item.to_le_bytes()).collect();
        let dataset = Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)]).group_by_window(
            |element| element.map("zero", Params::none()),
            3,
            |window| Dataset::zip([window, Dataset::range(0, 100, 1)]),
        );
        let mut reader = level.read(dataset, Policy::Dynamic);
        let mut found = drain(&mut reader);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 5]);
        drop(reader);
        level.end();
    });
}
