//! Tests of operations whose parameters are values only, for behaviour that the random chains do not
//! cover.

use std::sync::Arc;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{Budget, ErrorKind, ExecContext, Executor, PreparedMap, Tensor, Value};
use millstream_pipeline::graph::{
    AUTO, Cardinality, ConstantTensor, Dataset, Params, ShardBy, Share, Splitting,
};
use proptest::prelude::*;

use crate::support::{Model, context, drain, functions, number, open, rendered};

fn error_of(dataset: Dataset) -> (ErrorKind, String) {
    let mut executor = open(&dataset.graph().unwrap());
    loop {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("expected an error"),
            Err(error) => return (error.kind(), error.to_string()),
        }
    }
}

fn numbers(dataset: Dataset) -> Vec<i64> {
    let mut executor = open(&dataset.graph().unwrap());
    let mut all = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        all.push(number(&item));
    }
    all
}

fn cardinality(dataset: Dataset) -> Cardinality {
    dataset.graph().unwrap().facts(&functions()).unwrap().cardinality
}

proptest! {
    #[test]
    fn shuffle_and_repeat_equals_both(
        count in 0i64..12,
        buffer in 1u64..16,
        repeat in 0u64..6,
        outer in 1u64..3,
        seed: u64,
    ) {
        let range = || Dataset::range(0, count, 1);
        let fused = range().shuffle_and_repeat(buffer, Some(repeat), Some(seed)).repeat(Some(outer));
        let apart = range().shuffle(buffer, Some(seed)).repeat(Some(repeat)).repeat(Some(outer));
        prop_assert_eq!(numbers(fused), numbers(apart));
    }

    #[test]
    fn a_rebatch_has_its_stated_batches(
        rows in 1u64..5,
        batches in 0u64..9,
        sizes in prop::collection::vec(1u64..7, 1..4),
        drop_remainder: bool,
    ) {
        let dataset = Dataset::range(0, (rows * batches) as i64, 1)
            .batch(rows, true)
            .rebatch_sizes(sizes, drop_remainder);
        let found = drain(&mut open(&dataset.clone().graph().unwrap()));
        prop_assert_eq!(cardinality(dataset), Cardinality::Finite(found.len() as u64));
    }
}

#[test]
fn an_endless_shuffle_and_repeat_of_nothing_ends() {
    let dataset = Dataset::range(0, 0, 1).shuffle_and_repeat(4, None, None);
    assert_eq!(cardinality(dataset.clone()), Cardinality::Finite(0));
    assert_eq!(numbers(dataset), Vec::<i64>::new());
}

#[test]
fn a_rebatch_keeps_components_together() {
    let spec = ElementSpec::dict([
        ("n", TensorSpec::fixed(Dtype::I64, &[5])),
        ("s", TensorSpec::fixed(Dtype::String, &[5])),
    ]);
    let tensors = vec![
        ConstantTensor::fixed((0..5i64).flat_map(i64::to_le_bytes).collect::<Vec<u8>>()),
        ConstantTensor::items(["a", "b", "", "d", "e"]),
    ];
    let dataset = Dataset::tensor_slices(spec.unwrap(), tensors).batch(3, false);
    let graph = dataset.clone().rebatch(2, false).graph().unwrap();
    let mut executor = open(&graph);
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(rendered(&item.value));
    }
    assert_eq!(found, ["[0 1] [a b]", "[2 3] [ d]", "[4] [e]"]);
    let spec = |dataset: Dataset| dataset.graph().unwrap().facts(&functions()).unwrap().spec;
    let leading = |spec: ElementSpec| spec.components()[0].dims().unwrap().to_vec();
    assert_eq!(leading(spec(dataset.clone().rebatch(2, true))), [Some(2)]);
    assert_eq!(leading(spec(dataset.clone().rebatch(2, false))), [None]);
    assert_eq!(leading(spec(dataset.rebatch_sizes([2, 1], true))), [None]);
}

#[test]
fn rows_of_two_shapes_are_not_joined() {
    let rows = |rows: i64| {
        Dataset::range(0, rows * 2, 1)
            .batch(rows as u64, true)
            .batch(2, true)
    };
    let (kind, message) = error_of(rows(2).concatenate(rows(3)).rebatch(4, false));
    assert_eq!(kind, ErrorKind::Value);
    assert!(
        message.contains("expected rows of i64[2], found rows of i64[3]"),
        "{message}"
    );
}

#[test]
fn unique_distinguishes_components_and_shapes() {
    let spec = ElementSpec::dict([
        ("n", TensorSpec::fixed(Dtype::I64, &[6])),
        ("s", TensorSpec::fixed(Dtype::String, &[6, 2])),
    ]);
    let tensors = vec![
        ConstantTensor::fixed(
            [1, 1, 2, 1, 1, 2i64]
                .iter()
                .flat_map(|n| n.to_le_bytes())
                .collect::<Vec<u8>>(),
        ),
        ConstantTensor::items(["ab", "", "a", "b", "ab", "", "ab", "", "", "ab", "ab", ""]),
    ];
    let mut executor = open(
        &Dataset::tensor_slices(spec.unwrap(), tensors)
            .unique()
            .graph()
            .unwrap(),
    );
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(rendered(&item.value));
    }
    assert_eq!(found, ["1 [ab ]", "1 [a b]", "2 [ab ]", "1 [ ab]"]);
    let again = Dataset::range(0, 3, 1).unique().repeat(Some(2));
    assert_eq!(
        numbers(again),
        [0, 1, 2, 0, 1, 2],
        "expected all distinct elements in every pass"
    );
}

#[test]
fn too_many_distinct_elements_are_an_error() {
    let context = ExecContext {
        budget: Budget::new(1000),
        ..context()
    };
    let graph = Dataset::counter(0, 1).unique().graph().unwrap();
    let mut executor = Executor::open(&graph, context).unwrap();
    let error = std::iter::from_fn(|| Some(executor.next()))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(
        error
            .to_string()
            .contains("distinct elements fill the rest of the pipeline's budget of 1000 bytes"),
        "{error}"
    );
}

#[test]
fn a_wrong_cardinality_names_the_count() {
    let range = || Dataset::range(0, 5, 1);
    assert_eq!(numbers(range().assert_cardinality(5).repeat(Some(2))).len(), 10);
    assert!(
        error_of(range().assert_cardinality(6))
            .1
            .contains("expected 6 elements in the dataset, found 5")
    );
    let more = error_of(range().assert_cardinality(4));
    assert_eq!(more.0, ErrorKind::Precondition);
    assert!(
        more.1.contains("expected 4 elements in the dataset, found more"),
        "{}",
        more.1
    );
    assert!(
        error_of(range().assert_infinite())
            .1
            .contains("found an end after 5")
    );
    let unknown = || range().filter("keep", Params::encode(&(2i64, 0i64)).unwrap());
    assert_eq!(cardinality(unknown()), Cardinality::Unknown);
    assert_eq!(
        cardinality(unknown().assert_cardinality(3)),
        Cardinality::Finite(3)
    );
    assert_eq!(cardinality(unknown().assert_infinite()), Cardinality::Infinite);
}

#[test]
fn a_share_may_differ_from_the_stated_cardinality() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(directory.path().join(name), name).unwrap();
    }
    let pattern = format!("{}/*", directory.path().display());
    let whole = Dataset::files(pattern)
        .text_lines()
        .assert_cardinality(3)
        .graph()
        .unwrap();
    let share = |by, index| {
        let share = Share {
            count: 2,
            index,
            seed: 1,
        };
        let mut executor = open(&whole.sharded(by, share).unwrap());
        let mut count = 0;
        while executor.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!((share(ShardBy::Files, 0), share(ShardBy::Files, 1)), (2, 1));
    assert_eq!((share(ShardBy::Elements, 0), share(ShardBy::Elements, 1)), (2, 1));
}

#[test]
fn ignored_errors_are_counted_everywhere() {
    let fails = || Dataset::range(0, 10, 1).map("fails", Params::encode(&3i64).unwrap());
    let whole: Vec<i64> = (0..10).filter(|number| number % 3 != 0).collect();
    let ahead: [fn(Dataset) -> Dataset; 6] = [
        |dataset| dataset,
        |dataset| dataset.prefetch(2),
        |dataset| {
            dataset
                .map("add", Params::encode(&0i64).unwrap())
                .parallel(2)
                .prefetch(3)
        },
        |dataset| dataset.interleave(2, 1, |number| number),
        |dataset| dataset.interleave(1, 1, |number| number).parallel(2),
        |dataset| dataset.flat_map(|number| number).unique().statistics("all"),
    ];
    for (index, ahead) in ahead.iter().enumerate() {
        for threads in [1, 3, AUTO] {
            let dataset = ahead(fails().parallel(threads)).ignore_errors(false);
            let mut executor = open(&dataset.graph().unwrap());
            let mut found = Vec::new();
            while let Some(item) = executor.next().unwrap() {
                found.push(number(&item));
            }
            found.sort_unstable();
            assert_eq!(found, whole, "dataset {index} with {threads} threads");
            assert_eq!(executor.skipped(), 4, "dataset {index} with {threads} threads");
        }
    }
}

#[test]
fn unreadable_lines_and_files_are_omitted() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("a", &b"1\n\xff\n2"[..]), ("b", b"3\n4"), ("c", b"x\n6")] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let files = || Dataset::files(format!("{}/*", directory.path().display()));
    let expected = [1, 2, 3, 4, 6];
    assert_eq!(
        numbers(files().text_lines().parse_int("").ignore_errors(true)),
        expected
    );
    let inside = files().flat_map(|file| file.text_lines().parse_int(""));
    assert_eq!(numbers(inside.ignore_errors(true)), expected);
    let inside = files()
        .interleave(1, 1, |file| file.text_lines().parse_int(""))
        .parallel(2);
    assert_eq!(numbers(inside.ignore_errors(true)), expected);
    let missing = Dataset::range(0, 3, 1)
        .map("path", Params::none())
        .flat_map(|file| file.text_lines())
        .ignore_errors(false)
        .graph()
        .unwrap();
    let path = |_: &Params, _: &ElementSpec| {
        let call = |_: Value| Ok(Value::from_buf([Tensor::string("/nowhere/at/all")]));
        let output = ElementSpec::single(TensorSpec::scalar(Dtype::String));
        Ok(PreparedMap {
            output: output.map_err(|error| error.to_string())?,
            call: Arc::new(call),
        })
    };
    let context = ExecContext {
        functions: Arc::new(functions().with_map("path", path)),
        ..context()
    };
    let mut executor = Executor::open(&missing, context).unwrap();
    assert!(executor.next().unwrap().is_none());
    assert_eq!(executor.skipped(), 3);
}

#[test]
fn batches_that_fail_are_left_out_whole() {
    let rows = Dataset::range(0, 5, 1)
        .batch(2, false)
        .batch(2, false)
        .ignore_errors(false);
    let found = drain(&mut open(&rows.graph().unwrap()));
    let row = |numbers: [i64; 2]| Model::Rows(numbers.map(Model::Scalar).to_vec());
    assert_eq!(
        found,
        [
            Model::Rows(vec![row([0, 1]), row([2, 3])]),
            Model::Rows(vec![Model::Rows(vec![Model::Scalar(4)])])
        ]
    );
}

#[test]
fn what_is_no_elements_fault_is_not_ignored() {
    let context = ExecContext {
        budget: Budget::new(600),
        ..context()
    };
    let dataset = Dataset::range(0, 100, 1)
        .take(100)
        .shuffle(100, None)
        .ignore_errors(false);
    let error = Executor::open(&dataset.graph().unwrap(), context)
        .unwrap()
        .next()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    let short = Dataset::range(0, 3, 1).assert_cardinality(4).ignore_errors(false);
    assert!(error_of(short).1.contains("found 3"));
}

#[test]
fn statistics_count_elements_bytes_and_failures_by_name() {
    let dataset = Dataset::range(0, 10, 1)
        .statistics("numbers")
        .map("fails", Params::encode(&5i64).unwrap())
        .statistics("passed")
        .ignore_errors(false)
        .batch(4, false)
        .statistics("batches")
        .statistics("numbers");
    let mut executor = open(&dataset.graph().unwrap());
    let statistics = executor.statistics().clone();
    drain(&mut executor);
    drop(executor);
    let measured = statistics.measured();
    assert_eq!(
        measured.keys().collect::<Vec<_>>(),
        ["batches", "numbers", "passed"]
    );
    let of = |name: &str| measured[name];
    assert_eq!(
        (of("passed").elements, of("passed").bytes, of("passed").failures),
        (8, 64, 2)
    );
    assert_eq!(
        (
            of("batches").elements,
            of("batches").bytes,
            of("batches").failures
        ),
        (2, 64, 0)
    );
    assert_eq!(
        of("numbers").elements,
        12,
        "expected operations with the same name to share their measurements"
    );
    assert_eq!(
        (of("batches").element_bytes.min, of("batches").element_bytes.max),
        (32, 32)
    );
    assert_eq!(of("passed").element_bytes.mean, 8.0);
    assert!(of("batches").wait_ns.max >= of("passed").wait_ns.min);
}

#[test]
fn what_each_step_keeps_is_stated() {
    let facts = |dataset: Dataset| dataset.graph().unwrap().facts(&functions()).unwrap();
    let range = || Dataset::range(0, 9, 1);
    let aligned = |dataset: Dataset| facts(dataset).aligned;
    for kept in [
        range().statistics("a"),
        range().ignore_errors(true),
        range().assert_cardinality(9),
    ] {
        let facts = facts(kept);
        assert_eq!(facts.aligned, Ok(()));
        assert!(matches!(facts.sources[0].splitting, Splitting::Counted(_)));
    }
    assert!(
        aligned(range().batch(3, true).rebatch(2, true))
            .unwrap_err()
            .contains("several elements")
    );
    assert!(
        aligned(range().shuffle_and_repeat(3, None, None))
            .unwrap_err()
            .contains("mixes")
    );
    assert!(aligned(range().unique()).unwrap_err().contains("has seen"));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let message = |dataset: Dataset| dataset.graph().unwrap_err().to_string();
    let range = || Dataset::range(0, 9, 1);
    assert!(message(range().rebatch(0, false)).contains("batch size of 0"));
    assert!(message(range().rebatch_sizes([], false)).contains("has 0 batch sizes"));
    assert!(message(range().rebatch_sizes([3, u64::MAX], false)).contains("is not within"));
    assert!(message(range().shuffle_and_repeat(0, None, None)).contains("shuffle buffer of 0"));
    assert!(message(range().statistics("")).contains("name is empty"));
    let scalar = range()
        .rebatch(2, false)
        .graph()
        .unwrap()
        .facts(&functions())
        .unwrap_err();
    assert!(scalar.to_string().contains("scalar"), "{scalar}");
}
