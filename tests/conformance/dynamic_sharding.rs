//! Rows of dynamic_sharding_test: splits that workers lease one batch at a time, for all kinds of datasets.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{Code, Policy};
use millstream::element::{Dtype, ElementSpec, TensorSpec};
use millstream::pipeline::exec::{Functions, PreparedMap, Tensor, Value};
use millstream::pipeline::graph::{AUTO, ConstantTensor, Dataset, Params};
use millstream::service_reader;

use super::harness::{Distributed, distribute, range, refusal, sorted, times};
use super::record_files::{RecordFiles, flat, texts};
use crate::support::cluster::{Cluster, number, numbers};
use crate::support::links::Mechanism;
use crate::support::watched;

/// The name of the job that most rows read.
const JOB: &str = "job_name";

/// Registers the functions `zero`, which returns 0 for every element, and `tens`, which yields the multiples
/// of ten.
fn functions() -> Functions {
    let zero = PreparedMap {
        output: number(),
        call: Arc::new(|_| Ok(Value::from_iter([Tensor::i64(0)]))),
    };
    let tens = |value: &Value| {
        let number = value.first().and_then(Tensor::as_i64).ok_or("not a number")?;
        Ok(number % 10 == 0)
    };
    Functions::new()
        .with_map("zero", move |_, _| Ok(zero.clone()))
        .with_filter("tens", move |_, _| Ok(Arc::new(tens)))
}

/// Runs a row with a service of `workers` workers.
fn row(what: &str, workers: usize, test: impl FnOnce(Cluster) + Send + 'static) {
    watched(what, move || {
        test(Cluster::start(Mechanism::Quic, vec![functions(); workers]));
    });
}

fn dynamic(cluster: &Cluster, dataset: Dataset) -> Distributed<'_> {
    distribute(cluster.service(), dataset, Policy::Dynamic).named(JOB)
}

/// Runs a row with two workers, in which a dataset yields these numbers in any order.
fn yields(what: &str, dataset: Dataset, expected: Vec<i64>) {
    row(what, 2, move |cluster| {
        assert_eq!(dynamic(&cluster, dataset).sorted(), sorted(expected));
    });
}

/// Runs a row with one worker, in which a dataset yields pairs of equal numbers up to `count`, in order.
fn pairs_up(what: &str, dataset: Dataset, count: i64) {
    row(what, 1, move |cluster| {
        let expected: Vec<(i64, i64)> = (0..count).map(|number| (number, number)).collect();
        assert_eq!(pairs(&mut dynamic(&cluster, dataset).reader()), expected);
    });
}

fn pairs(reader: &mut Reader) -> Vec<(i64, i64)> {
    let pair = reader.map(|element| {
        let element = element.expect("the reader proceeds");
        let number = |index| {
            let component = element.component(index).expect("two components");
            component.as_slice::<i64>().expect("a number")[0]
        };
        (number(0), number(1))
    });
    pair.collect()
}

/// Returns the next number of an endless reader.
fn next(reader: &mut Reader) -> i64 {
    let element = reader.next_element().expect("the reader proceeds");
    numbers(&element.expect("it does not end"))[0]
}

/// Returns the slices of a vector of numbers.
fn slices(items: &[i64]) -> Dataset {
    let spec = TensorSpec::fixed(Dtype::I64, &[items.len() as u64]);
    let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    Dataset::tensor_slices(
        ElementSpec::single(spec).expect("a vector"),
        vec![ConstantTensor::fixed(bytes)],
    )
}

/// Returns a dataset that repeats a number without end.
fn always(item: i64) -> Dataset {
    Dataset::tensors(number(), vec![ConstantTensor::fixed(item.to_le_bytes())]).repeat(None)
}

#[test]
fn dynamic_sharding_test__basic() {
    yields("basic", range(100), times(1, 100));
}

#[test]
fn dynamic_sharding_test__tensor_slices() {
    yields("tensor slices", slices(&[5, 1, 2, 4]), vec![5, 1, 2, 4]);
}

#[test]
fn dynamic_sharding_test__interleave() {
    let dataset = slices(&[1, 5, 0]).interleave(16, 1, |element| element);
    yields("interleave", dataset, vec![1, 5, 0]);
}

#[test]
fn dynamic_sharding_test__parallel_interleave() {
    let dataset = slices(&[1, 5, 0]).interleave(16, 1, |element| element);
    yields("parallel interleave", dataset.parallel(AUTO), vec![1, 5, 0]);
}

/// Upstream only requires that reading does not fail. This test also requires that no split is lost.
#[test]
fn dynamic_sharding_test__group_by_window() {
    let dataset = slices(&[1, 5, 0]).group_by_window(
        |element| element.map_declared("zero", Params::none(), number()),
        3,
        |window| Dataset::zip([window, range(100)]),
    );
    yields("group by window", dataset, vec![1, 5, 0]);
}

#[test]
fn dynamic_sharding_test__repeat_before_distribution() {
    yields("repeat before", range(20).repeat(Some(5)), times(5, 20));
}

#[test]
fn dynamic_sharding_test__repeat_after_distribution() {
    row("repeat after", 2, |cluster| {
        let found = dynamic(&cluster, range(20)).repeated(5);
        assert_eq!(sorted(found), times(5, 20));
    });
}

#[test]
fn dynamic_sharding_test__forever_repeat() {
    row("forever", 2, |cluster| {
        let mut reader = dynamic(&cluster, range(20).repeat(None)).reader();
        let mut counts = [0; 20];
        for _ in 0..1000 {
            counts[next(&mut reader) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 25), "{counts:?}");
    });
}

/// Some workers get no split in the first pass.
#[test]
fn dynamic_sharding_test__forever_repeat_few_elements() {
    row("forever, few elements", 5, |mut cluster| {
        let mut repeated = dynamic(&cluster, range(1).repeat(None));
        // With few outstanding elements, the elements read after the workers left were not buffered before.
        repeated.config.max_outstanding = MaxOutstanding::Elements(8);
        let mut reader = repeated.reader();
        for _ in 0..20 {
            assert_eq!(next(&mut reader), 0);
        }
        for worker in cluster.workers.drain(..4) {
            worker.stop().expect("a clean exit");
        }
        for _ in 0..20 {
            assert_eq!(next(&mut reader), 0);
        }
    });
}

#[test]
fn dynamic_sharding_test__shuffle_and_repeat() {
    let dataset = range(20).shuffle(20, None).repeat(Some(5));
    yields("shuffle and repeat", dataset, times(5, 20));
}

#[test]
fn dynamic_sharding_test__zip() {
    pairs_up("zip", Dataset::zip([range(10), range(10)]), 10);
}

#[test]
fn dynamic_sharding_test__imbalanced_zip() {
    pairs_up("imbalanced zip", Dataset::zip([range(200), range(1000)]), 200);
}

#[test]
fn dynamic_sharding_test__zip_different_rates() {
    row("different rates", 3, |cluster| {
        let sparse = range(100).filter("tens", Params::none());
        let zip = Dataset::zip([range(100), sparse]);
        let pairs = pairs(&mut dynamic(&cluster, zip).reader());
        let seconds = sorted(pairs.iter().map(|(_, second)| *second).collect());
        assert_eq!(seconds, (0..100).step_by(10).collect::<Vec<_>>(), "{pairs:?}");
    });
}

#[test]
fn dynamic_sharding_test__sample_from_datasets() {
    row("sample", 3, |cluster| {
        let inputs = [(0.6, always(0)), (0.3, always(1)), (0.1, always(2))];
        let mut reader = dynamic(&cluster, Dataset::sample(inputs, None, true)).reader();
        let mut counts = BTreeMap::from([(0, 0), (1, 0), (2, 0)]);
        for _ in 0..200 {
            *counts.get_mut(&next(&mut reader)).expect("one of three") += 1;
        }
        assert!(counts[&0] > counts[&1] && counts[&1] > counts[&2], "{counts:?}");
    });
}

/// The service refuses the dataset when the job is created; upstream refuses it when it is read.
#[test]
fn dynamic_sharding_test__distributed_dataset() {
    row("distributed twice", 1, |cluster| {
        let once = distribute(cluster.service(), range(10), Policy::Dynamic);
        let config = ReaderConfig::default();
        let once = service_reader::dataset(cluster.service(), &once.request, &config).expect("a dataset");
        let error = refusal(dynamic(&cluster, once).iterate());
        assert_eq!(error.code, Code::Unimplemented, "{error}");
        assert!(error.message.contains("reads another service"), "{error}");
    });
}

#[test]
fn dynamic_sharding_test__flat_map_with_repeat() {
    row("flat map", 2, |cluster| {
        let letters = ["a", "b", "c"];
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::String, &[3])).expect("a vector");
        let repeated = Dataset::tensor_slices(spec, vec![ConstantTensor::items(letters)]).repeat(Some(10));
        let dataset = range(5).flat_map(|_| repeated);
        let mut found = texts(&mut dynamic(&cluster, dataset).reader());
        found.sort_unstable();
        let expected: Vec<&str> = letters.iter().flat_map(|letter| [*letter; 50]).collect();
        assert_eq!(found, expected);
    });
}

/// The dispatcher shuffles the list of files once for all workers; in the second dataset, each worker
/// shuffles the paths itself.
#[test]
fn dynamic_sharding_test__shuffle_files() {
    row("shuffled files", 3, |cluster| {
        let files = RecordFiles::write(5);
        let drawn = Dataset::files_shuffled(files.pattern(), None);
        let shuffled = files.files().shuffle(5, None);
        for (name, paths) in [("drawn", drawn), ("shuffled", shuffled)] {
            let records = flat(paths);
            let mut found = texts(&mut dynamic(&cluster, records).named(name).reader());
            found.sort_unstable();
            assert_eq!(found, files.all(), "{name}");
        }
    });
}
