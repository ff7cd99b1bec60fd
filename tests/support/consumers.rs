//! Support for coordinated reads: a dataset of groups of numbers, and a check that all consumers stay in
//! step.

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::{JobId, Policy};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceError};

use super::cluster::numbers;

/// The number of groups of a worker. The number is so large that two workers rarely yield the same group at
/// the same time.
const GROUPS: i64 = 1 << 20;

/// Returns an endless dataset of groups of consecutive numbers. The group from 0 comes first, which reveals a
/// new task; then each worker yields the other groups in its own order.
pub(crate) fn groups(consumers: u32) -> Dataset {
    let n = i64::from(consumers);
    let others = Dataset::range(n, GROUPS * n, 1);
    let shuffled = others
        .batch(u64::from(consumers), true)
        .shuffle(512, None)
        .unbatch();
    Dataset::range(0, n, 1).concatenate(shuffled.repeat(None))
}

/// The consumers of one pass of a job.
pub(crate) struct Party {
    pub(crate) readers: Vec<Reader>,
    /// The first number of each group, step by step.
    pub(crate) steps: Vec<i64>,
}

impl Party {
    pub(crate) fn of(service: &Service, consumers: u32, max_outstanding: MaxOutstanding) -> Self {
        let job = job(service, groups(consumers), Policy::Off, consumers);
        Self {
            readers: (0..consumers)
                .map(|consumer| open(service, job, consumer, max_outstanding).expect("a reader"))
                .collect(),
            steps: Vec::new(),
        }
    }

    /// Reads `steps` steps, with each consumer on its own thread.
    pub(crate) fn read(&mut self, steps: usize) {
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

    /// Reads until `tasks` tasks have begun in total, and 20 steps more.
    pub(crate) fn read_until_begun(&mut self, tasks: usize) {
        while self.steps.iter().filter(|first| **first == 0).count() < tasks {
            self.read(1);
        }
        self.read(20);
    }
}

/// Reads `steps` steps, with each consumer on its own thread. Returns the first number of each element.
pub(crate) fn read_apart(readers: &mut [Reader], steps: usize) -> Vec<Vec<i64>> {
    on_threads(readers, |reader| {
        let next = || numbers(&reader.next_element().expect("no failure").expect("no end"))[0];
        std::iter::repeat_with(next).take(steps).collect()
    })
}

/// Reads to the end, with each consumer on its own thread. Returns the first number of each element.
pub(crate) fn read_to_the_end(readers: &mut [Reader]) -> Vec<Vec<i64>> {
    on_threads(readers, |reader| {
        let next = || reader.next_element().expect("no failure");
        std::iter::from_fn(next)
            .map(|element| numbers(&element)[0])
            .collect()
    })
}

/// Calls `read` for each consumer, on a thread of its own.
fn on_threads(readers: &mut [Reader], read: impl Fn(&mut Reader) -> Vec<i64> + Sync) -> Vec<Vec<i64>> {
    let read = &read;
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

pub(crate) fn job(service: &Service, dataset: Dataset, policy: Policy, consumers: u32) -> JobId {
    let dataset = service.register(dataset, None).expect("registered");
    let request = ReadRequest::new(dataset, policy)
        .named("in step")
        .coordinated(consumers);
    service.job(&request).expect("a job")
}

pub(crate) fn open(
    service: &Service,
    job: JobId,
    consumer: u32,
    max_outstanding: MaxOutstanding,
) -> Result<Reader, ServiceError> {
    let config = ReaderConfig {
        max_outstanding,
        consumer: Some(consumer),
        ..ReaderConfig::default()
    };
    service.read(job, 0, &config)
}

pub(crate) fn first_error(reader: &mut Reader) -> ReadError {
    loop {
        match reader.next_element() {
            Ok(element) => assert!(element.is_some(), "the dataset has no end"),
            Err(error) => return error,
        }
    }
}
