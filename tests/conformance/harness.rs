//! A dataset that behaves like upstream's dataset objects: each new iterator reads the next pass of the job.

use std::cell::Cell;

use millstream::client::{Reader, ReaderConfig};
use millstream::control::{DatasetId, Error, Policy, TargetWorkers};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceError};

use crate::support::cluster::{drain, numbers};

/// A distributed dataset, like the result of upstream's `distribute` and `from_dataset_id`. It counts its
/// iterators.
pub(super) struct Distributed<'a> {
    service: &'a Service,
    pub(super) request: ReadRequest,
    pub(super) config: ReaderConfig,
    /// The pass that the next iterator reads. A new object starts with the first pass.
    pass: Cell<u64>,
}

/// Registers a dataset and distributes it.
pub(super) fn distribute(service: &Service, dataset: Dataset, policy: Policy) -> Distributed<'_> {
    let id = service.register(dataset, None).expect("registered");
    from_id(service, id, policy)
}

/// Distributes a registered dataset.
pub(super) fn from_id(service: &Service, dataset: DatasetId, policy: Policy) -> Distributed<'_> {
    Distributed {
        service,
        request: ReadRequest::new(dataset, policy),
        config: ReaderConfig::default(),
        pass: Cell::new(0),
    }
}

impl Distributed<'_> {
    /// Sets the job's name.
    pub(super) fn named(mut self, name: &str) -> Self {
        self.request = self.request.named(name);
        self
    }

    /// Sets the workers to read from.
    pub(super) fn target(mut self, workers: TargetWorkers) -> Self {
        self.request = self.request.from_workers(workers);
        self
    }

    /// Returns an iterator over the next pass.
    pub(super) fn iterate(&self) -> Result<Reader, ServiceError> {
        let job = self.service.job(&self.request)?;
        let reader = self.service.read(job, self.pass.get(), &self.config)?;
        self.pass.set(self.pass.get() + 1);
        Ok(reader)
    }

    /// Returns an iterator over the next pass. Panics on an error.
    pub(super) fn reader(&self) -> Reader {
        self.iterate().expect("a reader")
    }

    /// Returns the numbers of one pass, in the order of arrival.
    pub(super) fn numbers(&self) -> Vec<i64> {
        drain(&mut self.reader())
    }

    /// Returns the numbers of one pass, sorted.
    pub(super) fn sorted(&self) -> Vec<i64> {
        sorted(self.numbers())
    }

    /// Returns the numbers of `passes` passes, one after the other, like upstream's `repeat` after
    /// `distribute`.
    pub(super) fn repeated(&self, passes: usize) -> Vec<i64> {
        (0..passes).flat_map(|_| self.numbers()).collect()
    }
}

pub(super) fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

/// Returns the numbers from 0 to `count` (exclusive), each `copies` times, sorted.
pub(super) fn times(copies: usize, count: i64) -> Vec<i64> {
    (0..count).flat_map(|number| vec![number; copies]).collect()
}

/// Returns the dataset of the numbers from 0 to `count` (exclusive).
pub(super) fn range(count: i64) -> Dataset {
    Dataset::range(0, count, 1)
}

/// Reads `count` numbers, in the order of arrival.
pub(super) fn take(reader: &mut Reader, count: usize) -> Vec<i64> {
    let elements = reader.take(count);
    elements
        .flat_map(|element| numbers(&element.expect("the reader proceeds")))
        .collect()
}

/// Returns the error of an outcome that must be a refusal.
pub(super) fn refusal<T>(outcome: Result<T, ServiceError>) -> Error {
    match outcome {
        Err(ServiceError::Dispatcher(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was granted"),
    }
}
