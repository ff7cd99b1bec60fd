//! Tests of packed token sequences, compared with a naive packer.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{Executor, Value};
use millstream_pipeline::graph::{ConstantTensor, Cut, Dataset, NoFunctions, PackSequences, Params, col};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{context, functions};

/// The tokens, segment ids and positions of a row.
type Row = (Vec<i64>, Vec<i64>, Vec<i64>);

/// Returns a dataset of sequences with the given lengths. Each sequence consists of the tokens 0, 1, 2,
/// …
fn sequences(lengths: &[i64]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[lengths.len() as u64])).unwrap();
    let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
    Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)]).map("up_to", Params::none())
}

/// Packs rows naively, token by token.
fn naive(lengths: &[i64], pack: &PackSequences) -> Vec<Row> {
    let length = pack.length as usize;
    let mut rows: Vec<Row> = vec![Default::default()];
    for sequence in lengths {
        let tokens: Vec<i64> = (0..*sequence).chain(pack.separator).collect();
        let filled = rows.last().unwrap().0.len();
        let begins_again = pack.cut == Cut::TooLong && filled > 0 && filled + tokens.len() > length;
        if begins_again && filled < length {
            rows.push(Default::default());
        }
        let mut segment = None;
        for (position, token) in tokens.into_iter().enumerate() {
            if rows.last().unwrap().0.len() == length {
                rows.push(Default::default());
                segment = None;
            }
            let (row, segments, positions) = rows.last_mut().unwrap();
            let segment = *segment.get_or_insert(segments.last().copied().unwrap_or(0) + 1);
            row.push(token);
            segments.push(segment);
            positions.push(position as i64);
        }
    }
    if rows
        .last()
        .is_some_and(|row| row.0.is_empty() || (pack.drop_remainder && row.0.len() < length))
    {
        rows.pop();
    }
    for (row, segments, positions) in &mut rows {
        row.resize(length, pack.padding);
        segments.resize(length, 0);
        positions.resize(length, 0);
    }
    rows
}

fn numbers(value: &Value, component: usize) -> Vec<i64> {
    let tensor = value[component].settled().unwrap();
    let bytes = tensor.contiguous().unwrap();
    if tensor.dtype() == Dtype::I32 {
        let items = bytes.chunks_exact(4);
        return items
            .map(|item| i32::from_le_bytes(item.try_into().unwrap()).into())
            .collect();
    }
    assert_eq!(tensor.dtype(), Dtype::I64);
    let items = bytes.chunks_exact(8);
    items
        .map(|item| i64::from_le_bytes(item.try_into().unwrap()))
        .collect()
}

fn rows(executor: &mut Executor, most: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    while rows.len() < most
        && let Some(item) = executor.next().unwrap()
    {
        rows.push((
            numbers(&item.value, 0),
            numbers(&item.value, 1),
            numbers(&item.value, 2),
        ));
    }
    rows
}

proptest! {
    #![proptest_config(rounds(200))]

    #[test]
    fn packed_rows_hold_every_token_once(
        lengths in prop::collection::vec(0i64..9, 1..8),
        length in 1u64..7,
        separator in prop::option::of(-5i64..0),
        cuts_anywhere: bool,
        drop_remainder: bool,
        at in 0usize..6,
    ) {
        let pack = PackSequences {
            separator,
            padding: -9,
            cut: if cuts_anywhere { Cut::Anywhere } else { Cut::TooLong },
            drop_remainder,
            ..PackSequences::new("", length)
        };
        let graph = sequences(&lengths).pack_sequences(pack.clone()).graph().unwrap();
        let expected = naive(&lengths, &pack);
        let mut executor = Executor::open(&graph, context()).unwrap();
        let mut found = rows(&mut executor, at);
        let state = executor.save().unwrap();
        let mut executor = Executor::open(&graph, context()).unwrap();
        executor.restore(&state).unwrap();
        found.extend(rows(&mut executor, usize::MAX));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn rows_are_a_dict_of_known_shape() {
    let packed = sequences(&[1])
        .pack_sequences(PackSequences::new("", 4))
        .graph()
        .unwrap();
    let spec = packed.facts(&functions()).unwrap().spec;
    assert_eq!(
        spec.to_string(),
        "{tokens: i64[4], segment_ids: i32[4], positions: i32[4]}"
    );
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let refused = |dataset: Dataset| {
        let graph = dataset.graph().map_err(|error| error.to_string());
        graph
            .and_then(|graph| graph.facts(&NoFunctions).map_err(|error| error.to_string()))
            .unwrap_err()
    };
    let scalars = Dataset::range(0, 3, 1).pack_sequences(PackSequences::new("", 4));
    assert!(refused(scalars).contains("vector of integers"));
    let empty = Dataset::range(0, 3, 1).pack_sequences(PackSequences::new("", 0));
    assert!(refused(empty).contains("row of 0"));
    let narrow = PackSequences {
        padding: 300,
        ..PackSequences::new("", 4)
    };
    let bytes = Dataset::range(0, 3, 1).map_expr(col("").cast(Dtype::U8).expand_dims(0));
    assert!(refused(bytes.pack_sequences(narrow)).contains("300 is outside of the range of u8"));
}
