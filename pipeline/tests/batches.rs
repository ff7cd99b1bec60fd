//! Tests of batches of elements with different shapes: padded batches, ragged batches, and buckets by
//! length.

use std::sync::Arc;

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, Functions, OpenError, PreparedMap, Tensor, Value,
};
use millstream_pipeline::graph::{
    Buckets, Cardinality, Dataset, Graph, GraphError, PaddedBatch, Padding, Params, Window,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{pool, scalar};

/// Returns the map functions of these tests:
/// - `of_length`: turns a number n into a vector of n items that are all n.
/// - `square`: turns a number n into a tensor of the shape n x 2 x n.
/// - `words`: turns a number n into n strings with 0 to n - 1 characters.
/// - `length`: returns the first dimension.
/// - `twice`: returns twice a number.
/// - `first`: returns the first component.
fn functions() -> Functions {
    let vector = |dtype| ElementSpec::single(TensorSpec::with_dims(dtype, &[None])).unwrap();
    let number = |value: &Value| value[0].as_i64().unwrap();
    Functions::new()
        .with_map("of_length", move |_, _| {
            let call = move |value: Value| {
                Ok(Value::from_buf([numbers(&vec![
                    number(&value);
                    number(&value) as usize
                ])]))
            };
            Ok(PreparedMap {
                output: vector(Dtype::I64),
                call: Arc::new(call),
            })
        })
        .with_map("square", move |_, _| {
            let call = move |value: Value| {
                let side = number(&value) as u64;
                let items: Vec<u8> = (0..side * 2 * side)
                    .flat_map(|item| (item as i64).to_le_bytes())
                    .collect();
                Ok(Value::from_buf([Tensor::fixed(
                    Dtype::I64,
                    &[side, 2, side],
                    items,
                )?]))
            };
            let output = TensorSpec::with_dims(Dtype::I64, &[None, Some(2), None]);
            Ok(PreparedMap {
                output: ElementSpec::single(output).unwrap(),
                call: Arc::new(call),
            })
        })
        .with_map("words", move |_, _| {
            let call = move |value: Value| {
                let words: Vec<_> = (0..number(&value))
                    .map(|word| "x".repeat(word as usize).into())
                    .collect();
                Ok(Value::from_buf([Tensor::strings(
                    Dtype::String,
                    &[words.len() as u64],
                    words,
                )?]))
            };
            Ok(PreparedMap {
                output: vector(Dtype::String),
                call: Arc::new(call),
            })
        })
        .with_map("length", |_, _| {
            let call = |value: Value| Ok(Value::from_buf([Tensor::i64(value[0].dims()[0] as i64)]));
            Ok(PreparedMap {
                output: scalar(),
                call: Arc::new(call),
            })
        })
        .with_map("twice", move |_, input| {
            let call = move |value: Value| Ok(Value::from_buf([Tensor::i64(2 * number(&value))]));
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
}

fn numbers(items: &[i64]) -> Tensor {
    let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    Tensor::fixed(Dtype::I64, &[items.len() as u64], bytes).unwrap()
}

fn items(tensor: &Tensor) -> Vec<i64> {
    let settled = tensor.settled().unwrap();
    let items = settled.contiguous().unwrap().chunks_exact(8);
    items
        .map(|item| i64::from_le_bytes(item.try_into().unwrap()))
        .collect()
}

fn strings(tensor: &Tensor) -> Vec<String> {
    let mut strings = Vec::new();
    tensor.for_each_string(&mut |item| strings.push(String::from_utf8(item.to_vec()).unwrap()));
    strings
}

fn open(graph: &Graph) -> Result<Executor, OpenError> {
    Executor::open(graph, ExecContext::new(1, Arc::new(functions()), pool()))
}

/// Reads all elements, and checks each against the spec that the analysis returned.
fn read(dataset: Dataset) -> Result<Vec<Value>, ExecError> {
    let graph = dataset.graph().unwrap();
    let mut executor = open(&graph).unwrap();
    let spec = executor.spec().clone();
    let mut all = Vec::new();
    while let Some(item) = executor.next()? {
        assert_eq!(item.value.len(), spec.components().len(), "{spec}");
        for (tensor, spec) in item.value.iter().zip(spec.components()) {
            assert!(
                tensor.fits(spec),
                "expected {spec}, found {}{:?}",
                tensor.dtype(),
                tensor.dims()
            );
        }
        all.push(item.value);
    }
    Ok(all)
}

/// Returns a dataset of vectors with the given lengths, whose items all equal the length.
fn vectors(lengths: &[i64]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[lengths.len() as u64])).unwrap();
    let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
    let constant = millstream_pipeline::graph::ConstantTensor::fixed(bytes);
    Dataset::tensor_slices(spec, vec![constant]).map("of_length", Params::none())
}

fn length(element: Dataset) -> Dataset {
    element.map("length", Params::none())
}

fn buckets(padding: Padding, drop_remainder: bool) -> Buckets {
    Buckets {
        boundaries: vec![3, 6],
        batch_sizes: vec![3, 2, 1],
        padding,
        drop_remainder,
    }
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn a_padded_batch_fits_its_longest_row(
        lengths in prop::collection::vec(0i64..6, 0..12),
        size in 1u64..5,
        drop_remainder: bool,
    ) {
        let found = read(vectors(&lengths).padded_batch(size, drop_remainder)).unwrap();
        let chunks = lengths.chunks(size as usize).filter(|chunk| !drop_remainder || chunk.len() as u64 == size);
        let expected: Vec<_> = chunks.map(|chunk| {
            let longest = *chunk.iter().max().unwrap();
            let rows = chunk.iter().flat_map(|length| {
                (0..longest).map(move |at| if at < *length { *length } else { 0 })
            });
            (vec![chunk.len() as u64, longest as u64], rows.collect::<Vec<_>>())
        }).collect();
        let found: Vec<_> = found.iter().map(|value| (value[0].dims().to_vec(), items(&value[0]))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_ragged_batch_has_items_and_splits(
        lengths in prop::collection::vec(0i64..6, 0..12),
        size in 1u64..5,
        drop_remainder: bool,
    ) {
        let found = read(vectors(&lengths).ragged_batch(size, drop_remainder)).unwrap();
        let chunks = lengths.chunks(size as usize).filter(|chunk| !drop_remainder || chunk.len() as u64 == size);
        let expected: Vec<_> = chunks.map(|chunk| {
            let values: Vec<i64> = chunk.iter().flat_map(|length| vec![*length; *length as usize]).collect();
            let ends = (0..=chunk.len()).map(|end| chunk[..end].iter().sum::<i64>());
            (values, ends.collect::<Vec<_>>())
        }).collect();
        let found: Vec<_> = found.iter().map(|value| (items(&value[0]), items(&value[1]))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_bucket_holds_its_lengths_without_loss(lengths in prop::collection::vec(0i64..9, 0..30)) {
        let bucketed = vectors(&lengths).bucket_by_sequence_length(length, buckets(Padding::Longest, false));
        let found = read(bucketed).unwrap();
        let mut open = [Vec::new(), Vec::new(), Vec::new()];
        let mut expected = Vec::new();
        for length in &lengths {
            let bucket = usize::from(*length >= 3) + usize::from(*length >= 6);
            open[bucket].push(*length);
            if open[bucket].len() == [3, 2, 1][bucket] {
                expected.push(std::mem::take(&mut open[bucket]));
            }
        }
        expected.extend(open.into_iter().filter(|bucket| !bucket.is_empty()));
        let rows = |value: &Value| {
            let width = value[0].dims()[1] as usize;
            let count = value[0].dims()[0] as usize;
            let items = items(&value[0]);
            (0..count).map(|row| items[row * width..(row + 1) * width].iter().filter(|item| **item != 0).count() as i64).collect::<Vec<_>>()
        };
        prop_assert_eq!(found.iter().map(rows).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn all_batches_continue_from_saved_positions(
        lengths in prop::collection::vec(0i64..6, 0..15),
        cut in 0usize..20,
    ) {
        let batches = |dataset: Dataset| [
            dataset.clone().padded_batch(2, false),
            dataset.clone().ragged_batch(2, false),
            dataset.bucket_by_sequence_length(length, buckets(Padding::Boundary, false)),
        ];
        for dataset in batches(vectors(&lengths)) {
            // The second pass must begin with empty buckets.
            let graph = dataset.repeat(Some(2)).graph().unwrap();
            let shown = |value: Value| value.iter().map(items).collect::<Vec<_>>();
            let mut whole = Vec::new();
            let mut executor = open(&graph).unwrap();
            while let Some(item) = executor.next().unwrap() {
                whole.push(shown(item.value));
            }
            let mut found = Vec::new();
            let mut executor = open(&graph).unwrap();
            for _ in 0..cut {
                found.extend(executor.next().unwrap().map(|item| shown(item.value)));
            }
            let state = executor.save().unwrap();
            let mut restored = open(&graph).unwrap();
            restored.restore(&state).unwrap();
            while let Some(item) = restored.next().unwrap() {
                found.push(shown(item.value));
            }
            prop_assert_eq!(found, whole);
        }
    }
}

#[test]
fn every_unknown_dimension_is_padded() {
    let found = read(
        Dataset::range(1, 3, 1)
            .map("square", Params::none())
            .padded_batch(2, true),
    )
    .unwrap();
    assert_eq!(found[0][0].dims(), [2, 2, 2, 2]);
    assert_eq!(
        items(&found[0][0]),
        [0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn strings_are_padded_with_empty_ones() {
    let words = || Dataset::range(1, 4, 2).map("words", Params::none());
    let padded = read(words().padded_batch(2, false)).unwrap();
    assert_eq!(strings(&padded[0][0]), ["", "", "", "", "x", "xx"]);
    let ragged = read(words().ragged_batch(2, false)).unwrap();
    assert_eq!(strings(&ragged[0][0]), ["", "", "x", "xx"]);
    assert_eq!(items(&ragged[0][1]), [0, 1, 4]);
}

#[test]
fn batches_are_padded_as_requested() {
    let to = |shape: u64| PaddedBatch {
        size: 2,
        drop_remainder: false,
        shapes: vec![vec![Some(shape)]],
        values: vec![(-1i64).to_le_bytes().to_vec().into()],
    };
    let found = read(vectors(&[1, 2]).padded_batch_with(to(3))).unwrap();
    assert_eq!(items(&found[0][0]), [1, -1, -1, 2, 2, -1]);
    let error = read(vectors(&[1, 5]).padded_batch_with(to(3))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(
        error.to_string().contains("i64[5] cannot be padded to [3]"),
        "{error}"
    );
}

#[test]
fn ragged_dimensions_nest_to_the_last_unknown() {
    let dataset = Dataset::range(1, 3, 1)
        .map("square", Params::none())
        .ragged_batch(2, false);
    let spec = open(&dataset.clone().graph().unwrap()).unwrap().spec().clone();
    assert_eq!(*spec.structure(), Structure::Ragged { ragged_rank: 3 });
    let found = read(dataset).unwrap();
    let parts: Vec<_> = found[0].iter().map(items).collect();
    assert_eq!(parts[0], [0, 1, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(parts[1], [0, 1, 3], "the outer row splits");
    assert_eq!(parts[2], [0, 2, 4, 6], "the inner row splits");
    assert_eq!(parts[3], [0, 1, 2, 4, 6, 8, 10], "rows of those");
}

#[test]
fn ragged_batches_stack_equal_shapes() {
    let graph = Dataset::range(0, 4, 1).ragged_batch(2, true).graph().unwrap();
    let facts = graph.facts(&functions()).unwrap();
    assert_eq!(
        facts.spec,
        ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[2])).unwrap()
    );
    assert_eq!(facts.cardinality, Cardinality::Finite(2));
}

#[test]
fn buckets_pad_and_drop_as_told() {
    let lengths = [1, 4, 2, 4, 2];
    let of = |padding, drop| vectors(&lengths).bucket_by_sequence_length(length, buckets(padding, drop));
    let dims = |dataset| {
        let found = read(dataset).unwrap();
        found
            .iter()
            .map(|value| value[0].dims().to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(dims(of(Padding::Boundary, false)), [[2, 5], [3, 2]]);
    assert_eq!(dims(of(Padding::Longest, false)), [[2, 4], [3, 2]]);
    let even = vectors(&[4, 4, 2]).bucket_by_sequence_length(length, buckets(Padding::None, true));
    assert_eq!(dims(even), [[2, 4]]);
    let beyond = vectors(&[7]).bucket_by_sequence_length(length, buckets(Padding::Boundary, false));
    let error = read(beyond).unwrap_err();
    assert!(
        error.to_string().contains("length 7 is beyond the last boundary"),
        "{error}"
    );
    let uneven = vectors(&[1, 2, 2]).bucket_by_sequence_length(length, buckets(Padding::None, false));
    assert!(
        read(uneven).is_err(),
        "expected an error for two shapes in one bucket"
    );
}

#[test]
fn window_sizes_may_depend_on_keys() {
    let dataset = Dataset::range(1, 4, 1).repeat(Some(6)).group_by_window_sized(
        |element| element,
        |key| key.map("twice", Params::none()),
        |window| window.batch(100, false),
    );
    let found = read(dataset).unwrap();
    let found: Vec<_> = found.iter().map(|value| items(&value[0])).collect();
    let expected: [&[i64]; 6] = [&[1; 2], &[1; 2], &[2; 4], &[1; 2], &[3; 6], &[2; 2]];
    assert_eq!(found.len(), expected.len());
    for window in expected {
        assert!(found.iter().any(|found| found == window), "{found:?}");
    }
    let none = Dataset::range(0, 3, 1).group_by_window_sized(|element| element, |key| key, |window| window);
    let error = read(none).unwrap_err();
    assert!(
        error.to_string().contains("the window of key 0 has 0 elements"),
        "{error}"
    );
}

#[test]
fn keys_must_be_chains_to_numbers() {
    let grouped = |key: fn(Dataset) -> Dataset| vectors(&[1]).group_by_window(key, 2, |window| window);
    let error = grouped(|element| element)
        .graph()
        .unwrap()
        .facts(&functions())
        .unwrap_err();
    assert!(
        error.to_string().contains("expected an i64 scalar, found i64[?]"),
        "{error}"
    );
    let error = grouped(|element| element.unbatch()).graph().unwrap_err();
    assert!(
        matches!(&error, GraphError::Invalid { op: "unbatch", .. }),
        "{error}"
    );
    assert!(error.to_string().contains("maps alone"), "{error}");
}

#[test]
fn absurd_windows_are_refused_at_once() {
    let refused = |dataset: Dataset| dataset.graph().unwrap_err().to_string();
    let range = || Dataset::range(0, 9, 1);
    assert!(refused(range().group_by_window(|element| element, 0, |window| window)).contains("window of 0"));
    let window = |size, shift, stride| {
        let window = Window {
            size,
            shift,
            stride,
            drop_remainder: false,
        };
        refused(range().window(window, |window| window))
    };
    assert!(window(0, 1, 1).contains("expected at least 1"));
    assert!(window(1, 0, 1).contains("expected at least 1"));
    assert!(window(1 << 20, 1, 1 << 20).contains("expected at most"));
    let buckets = |boundaries: &[i64], batch_sizes: &[u64]| {
        let buckets = Buckets {
            boundaries: boundaries.to_vec(),
            batch_sizes: batch_sizes.to_vec(),
            padding: Padding::Longest,
            drop_remainder: false,
        };
        refused(vectors(&[1]).bucket_by_sequence_length(length, buckets))
    };
    assert!(buckets(&[], &[1]).contains("do not ascend"));
    assert!(buckets(&[2, 2], &[1, 1, 1]).contains("do not ascend"));
    assert!(buckets(&[2], &[1]).contains("1 batch sizes for 1 boundaries"));
    assert!(buckets(&[2], &[1, 0]).contains("batch size of 0"));
    assert!(refused(range().padded_batch(0, true)).contains("batch size of 0"));
}
