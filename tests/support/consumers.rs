//! The consumers of a coordinated read: groups of numbers to read, and a check that nobody is out of step.

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::{JobId, Policy};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceError};

use super::cluster::numbers;

/// Groups that a worker draws from; two workers draw the same one at the same time once in so many.
const GROUPS: i64 = 1 << 20;

/// Groups of consecutive numbers: first the one from 0, by which a new worker is known, then others, each
/// worker in an order of its own, without end.
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

    /// Reads so many steps, each consumer on a thread of its own.
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

    /// Reads until so many tasks have begun in all, and a little further.
    pub(crate) fn read_until_begun(&mut self, tasks: usize) {
        while self.steps.iter().filter(|first| **first == 0).count() < tasks {
            self.read(1);
        }
        self.read(20);
    }
}

pub(crate) fn read_apart(readers: &mut [Reader], steps: usize) -> Vec<Vec<i64>> {
    let read = |reader: &mut Reader| -> Vec<i64> {
        let next = || numbers(&reader.next_element().expect("no failure").expect("no end"))[0];
        std::iter::repeat_with(next).take(steps).collect()
    };
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
    until_error(reader).1
}

/// How many steps a consumer takes before an error, and which.
pub(crate) fn until_error(reader: &mut Reader) -> (usize, ReadError) {
    let mut steps = 0;
    loop {
        match reader.next_element() {
            Ok(element) => assert!(element.is_some(), "a coordinated read has no end"),
            Err(error) => return (steps, error),
        }
        steps += 1;
    }
}
