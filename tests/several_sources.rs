//! Tests of datasets with several sources under the policy `dynamic`: every source has its own splits, in
//! every pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream::client::{MaxOutstanding, Reader};
use millstream::control::Policy;
use millstream::pipeline::exec::{
    BoxError, Cancel, ExecError, Functions, PreparedFlatMap, Source, Tensor, Value,
};
use millstream::pipeline::graph::{Dataset, Params};

use crate::support::cluster::{Cluster, drain, number, numbers};
use crate::support::links::Mechanism;
use crate::support::watched;

fn range(start: i64, stop: i64) -> Dataset {
    Dataset::range(start, stop, 1)
}

/// Registers the flat_map function `tens`, which yields a number if it is a multiple of ten.
fn tens() -> Functions {
    struct Once(Option<Value>);
    impl Source for Once {
        fn next(&mut self) -> Result<Option<Value>, ExecError> {
            Ok(self.0.take())
        }
    }
    Functions::new().with_flat_map("tens", |_, input| {
        let call = |value: Value, _: &Cancel| -> Result<Box<dyn Source>, BoxError> {
            let number = value.first().and_then(Tensor::as_i64).ok_or("not a number")?;
            Ok(Box::new(Once((number % 10 == 0).then_some(value))))
        };
        Ok(PreparedFlatMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

/// Reads the dataset through a service of `workers` workers.
fn read<T: Send + 'static>(
    workers: usize,
    dataset: Dataset,
    take: impl FnOnce(&mut Reader) -> T + Send + 'static,
) -> T {
    watched("several sources", move || {
        let cluster = Cluster::start(Mechanism::Memory, vec![tens(); workers]);
        let mut reader = cluster.read(dataset, Policy::Dynamic, MaxOutstanding::Elements(16));
        let taken = take(&mut reader);
        assert!(matches!(reader.next_element(), Ok(None)), "an end is final");
        let lost = &reader.stats().lost_splits;
        assert!(
            lost.is_empty(),
            "nothing is lost while all processes live: {lost:?}"
        );
        taken
    })
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

/// Returns the first two components of every element.
fn pairs(reader: &mut Reader) -> Vec<(i64, i64)> {
    let mut pairs = Vec::new();
    for element in reader {
        let element = element.expect("the reader proceeds");
        let number = |index| {
            let component = element.component(index).expect("two components");
            component.as_slice::<i64>().expect("a number")[0]
        };
        pairs.push((number(0), number(1)));
    }
    pairs
}

#[test]
fn an_endless_source_is_dealt_out_endlessly() {
    watched("without end", || {
        let cluster = Cluster::plain(Mechanism::Memory, 2);
        let counter = Dataset::counter(0, 1);
        let mut reader = cluster.read(counter, Policy::Dynamic, MaxOutstanding::Elements(16));
        let mut seen = BTreeSet::new();
        while seen.len() < 20_000 {
            let element = reader.next_element().expect("the reader proceeds");
            let number = numbers(&element.expect("it does not end"))[0];
            assert!(seen.insert(number), "{number} came twice");
        }
    });
}

#[test]
fn one_worker_zips_by_position() {
    let zip = || Dataset::zip([range(0, 200), range(0, 1000)]);
    let once: Vec<(i64, i64)> = (0..200).map(|number| (number, number)).collect();
    assert_eq!(read(1, zip(), pairs), once);
    assert_eq!(read(1, zip().repeat(Some(3)), pairs), once.repeat(3));
}

#[test]
fn workers_zip_sources_of_different_rates() {
    let sparse = range(0, 100).flat_map_declared("tens", Params::none(), number());
    let zip = Dataset::zip([range(0, 100), sparse]);
    let pairs = read(3, zip, pairs);
    let mut seconds: Vec<i64> = pairs.iter().map(|(_, second)| *second).collect();
    seconds.sort_unstable();
    assert_eq!(seconds, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90], "{pairs:?}");
}

#[test]
fn workers_read_concatenations_once_every_pass() {
    let dataset = range(0, 100)
        .concatenate(range(100, 1000))
        .concatenate(range(1000, 1001));
    let expected: Vec<i64> = (0..1001).collect();
    assert_eq!(sorted(read(3, dataset.clone(), drain)), expected);
    let five_times: Vec<i64> = expected.iter().flat_map(|number| [*number; 5]).collect();
    assert_eq!(sorted(read(3, dataset.repeat(Some(5)), drain)), five_times);
}

#[test]
fn workers_sample_every_element_of_all_sources_once() {
    let inputs = [(0.2, range(0, 300)), (0.8, range(300, 900))];
    let found = read(3, Dataset::sample(inputs, None, false), drain);
    assert_eq!(sorted(found), (0..900).collect::<Vec<_>>());
}

#[test]
fn workers_choose_by_the_same_numbers_each() {
    let choices = Dataset::range(0, 2, 1).repeat(Some(5));
    let sources = [range(0, 1).repeat(None), range(1, 2).repeat(None)];
    let found = read(2, Dataset::choose(choices, sources, true), drain);
    assert_eq!(sorted(found), [[0; 10], [1; 10]].concat());
}

#[test]
fn workers_interleave_every_line_of_all_files_once() {
    let directory = tempfile::tempdir().expect("a directory");
    for file in 0..20 {
        let lines: String = (0..file).map(|line| format!("{}\n", 100 * file + line)).collect();
        std::fs::write(directory.path().join(format!("{file:02}")), lines).expect("a file");
    }
    let expected: Vec<i64> = (0..20)
        .flat_map(|file| (0..file).map(move |line| 100 * file + line))
        .collect();
    let dataset = Dataset::files(format!("{}/*", directory.path().display()))
        .interleave(4, 1, |path| path.text_lines().parse_int(""));
    assert_eq!(sorted(read(3, dataset, drain)), expected);
}
