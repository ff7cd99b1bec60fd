//! Tests of components that contain text or messages: TensorFlow examples, JSON, CSV, and strings split
//! into ragged parts.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ExecError, Executor, Value};
use millstream_pipeline::graph::{
    ConstantTensor, CsvField, Dataset, DecodeCsv, Feature, Graph, JsonField, NoFunctions,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{context, rendered};

/// The values of a feature, for the naive encoder.
#[derive(Debug, Clone)]
enum List {
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Unset,
}

fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn field(number: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    varint(message.len() as u64, &mut bytes);
    bytes.extend(message);
    bytes
}

/// Encodes a `Feature` message, with packed or separate numbers.
fn feature(list: &List, packed: bool) -> Vec<u8> {
    let mut inner = Vec::new();
    match list {
        List::Unset => Vec::new(),
        List::Bytes(items) => {
            items.iter().for_each(|item| inner.extend(field(1, item)));
            field(1, &inner)
        }
        List::Floats(items) => {
            let bytes = items.iter().map(|item| item.to_le_bytes());
            if packed {
                inner = field(1, &bytes.flatten().collect::<Vec<u8>>());
            } else {
                bytes.for_each(|item| inner.extend([&[0x0d], &item[..]].concat()));
            }
            field(2, &inner)
        }
        List::Ints(items) => {
            let mut bytes = Vec::new();
            for item in items {
                if !packed {
                    bytes.push(0x08);
                }
                varint(*item as u64, &mut bytes);
            }
            field(3, &if packed { field(1, &bytes) } else { bytes })
        }
    }
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| {
        let pair = [field(1, key.as_bytes()), field(2, value)].concat();
        field(1, &pair)
    });
    entries.flatten().collect()
}

fn example(features: &[(&str, List)], packed: bool) -> Vec<u8> {
    let features: Vec<_> = features
        .iter()
        .map(|(key, list)| (*key, feature(list, packed)))
        .collect();
    field(1, &map(&features))
}

/// Returns a dataset of one element: the component "x" with one byte string or a vector of byte
/// strings, and the number "n".
fn of(records: &[Vec<u8>], batched: bool) -> Dataset {
    let spec = if batched {
        TensorSpec::fixed(Dtype::Bytes, &[records.len() as u64])
    } else {
        TensorSpec::scalar(Dtype::Bytes)
    };
    let spec = ElementSpec::dict([("x", spec), ("n", TensorSpec::scalar(Dtype::I64))]).unwrap();
    let tensors = vec![
        ConstantTensor::items(records.iter().cloned()),
        ConstantTensor::fixed(7i64.to_le_bytes()),
    ];
    Dataset::tensors(spec, tensors)
}

/// Returns the only element of `dataset`, and checks the element against the spec from the analysis.
fn only(dataset: Dataset) -> Result<(Value, String), ExecError> {
    let graph = dataset.graph().unwrap();
    assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    let spec = graph.facts(&NoFunctions).unwrap().spec;
    let mut executor = Executor::open(&graph, context()).unwrap();
    let item = executor.next()?.unwrap();
    assert_eq!(item.value.len(), spec.components().len());
    for (tensor, promised) in item.value.iter().zip(spec.components()) {
        assert!(tensor.fits(promised), "{tensor:?} is not {promised}");
    }
    assert!(executor.next().unwrap().is_none());
    Ok((item.value, spec.to_string()))
}

fn shown(dataset: Dataset) -> String {
    rendered(&only(dataset).unwrap().0)
}

fn refusal(dataset: Dataset) -> String {
    let error = only(dataset).unwrap_err();
    assert_eq!(error.kind(), millstream_pipeline::exec::ErrorKind::Value);
    error.to_string()
}

#[test]
fn an_example_of_tensorflow_becomes_its_features() {
    // A `tf.train.Example` with the feature "a", an `Int64List` of 1 and 2.
    let bytes = [
        0x0a, 0x0d, 0x0a, 0x0b, 0x0a, 0x01, b'a', 0x12, 0x06, 0x1a, 0x04, 0x0a, 0x02, 0x01, 0x02,
    ];
    let dataset = of(&[bytes.to_vec()], false).parse_example("x", [Feature::fixed("a", Dtype::I64, &[2])]);
    let (value, spec) = only(dataset).unwrap();
    assert_eq!(spec, "{n: i64[], a: i64[2]}");
    assert_eq!(rendered(&value), "7 [1 2]");
}

#[test]
fn one_examples_features_have_the_requested_layout() {
    let record = example(
        &[
            ("i", List::Ints(vec![-1, 300])),
            ("f", List::Floats(vec![0.5])),
            ("s", List::Bytes(vec![b"ab".to_vec(), vec![]])),
            ("unset", List::Unset),
        ],
        true,
    );
    let parse =
        |features: Vec<Feature>| shown(of(std::slice::from_ref(&record), false).parse_example("x", features));
    assert_eq!(
        parse(vec![Feature::fixed("i", Dtype::I64, &[2, 1])]),
        "7 [[-1] [300]]"
    );
    assert_eq!(parse(vec![Feature::ragged("s", Dtype::String)]), "7 [ab ]");
    assert_eq!(
        parse(vec![Feature::sparse("i", Dtype::I64)]),
        "7 [[0] [1]] [-1 300] [2]"
    );
    assert_eq!(parse(vec![Feature::sparse("none", Dtype::I64)]), "7 [] [] [0]");
    assert_eq!(
        parse(vec![Feature::padded("i", Dtype::I64, &[1])]),
        "7 [[-1] [300]]"
    );
    let default = ConstantTensor::fixed(9i64.to_le_bytes());
    let with_default = |name: &str| Feature::fixed_or(name, Dtype::I64, &[3], default.clone());
    assert_eq!(parse(vec![with_default("none")]), "7 [9 9 9]");
    assert_eq!(parse(vec![with_default("unset")]), "7 [9 9 9]");
}

#[test]
fn several_examples_have_a_row_each() {
    let record = |ints: &[i64]| example(&[("i", List::Ints(ints.to_vec()))], false);
    let batch = || of(&[record(&[1, 2]), record(&[]), record(&[3])], true);
    let parse = |feature: Feature| shown(batch().parse_example("x", [feature]));
    assert_eq!(parse(Feature::ragged("i", Dtype::I64)), "7 [1 2 3] [0 2 2 3]");
    assert_eq!(
        parse(Feature::sparse("i", Dtype::I64)),
        "7 [[0 0] [0 1] [2 0]] [1 2 3] [3 2]"
    );
    assert_eq!(
        parse(Feature::padded("i", Dtype::I64, &[])),
        "7 [[1 2] [0 0] [3 0]]"
    );
    let (_, spec) = only(batch().parse_example("x", [Feature::ragged("i", Dtype::I64)])).unwrap();
    assert_eq!(spec, "{n: i64[], i: ragged(values: i64[?], row_splits: i64[4])}");
    let message = refusal(batch().parse_example("x", [Feature::fixed("i", Dtype::I64, &[2])]));
    assert!(
        message.contains("example 1 of 3: feature \"i\": expected 2 values for the shape [2], found 0"),
        "{message}"
    );
}

#[test]
fn missing_and_mistyped_features_are_named() {
    let record = example(
        &[("i", List::Ints(vec![1])), ("s", List::Bytes(vec![vec![0xff]]))],
        true,
    );
    let refused =
        |feature: Feature| refusal(of(std::slice::from_ref(&record), false).parse_example("x", [feature]));
    let missing = refused(Feature::fixed("j", Dtype::I64, &[]));
    assert!(
        missing.contains("feature \"j\": the feature is missing, and has no default"),
        "{missing}"
    );
    let kind = refused(Feature::fixed("i", Dtype::F32, &[]));
    assert!(
        kind.contains("expected floats as declared, found integers"),
        "{kind}"
    );
    let utf8 = refused(Feature::fixed("s", Dtype::String, &[]));
    assert!(utf8.contains("not UTF-8"), "{utf8}");
    let twice = of(&[], true).parse_example(
        "x",
        [Feature::ragged("a", Dtype::I64), Feature::ragged("a", Dtype::I64)],
    );
    assert!(twice.graph().unwrap_err().to_string().contains("twice"));
    let wide = of(&[], true).parse_example("x", [Feature::ragged("a", Dtype::F64)]);
    assert!(
        wide.graph()
            .unwrap_err()
            .to_string()
            .contains("read one of these and cast it")
    );
}

#[test]
fn sequence_examples_have_rows_of_features() {
    let list = |lists: &[List]| -> Vec<u8> {
        lists
            .iter()
            .flat_map(|list| field(1, &feature(list, true)))
            .collect()
    };
    let context = [("id", feature(&List::Ints(vec![4]), true))];
    let frames = list(&[List::Floats(vec![1.0, 2.0]), List::Floats(vec![3.0, 4.0])]);
    let words = list(&[
        List::Bytes(vec![b"a".to_vec()]),
        List::Bytes(vec![b"b".to_vec(), b"c".to_vec()]),
    ]);
    let lists = [("frames", frames), ("words", words)];
    let record = [field(1, &map(&context)), field(2, &map(&lists))].concat();
    let parse = |sequences: Vec<Feature>| {
        of(std::slice::from_ref(&record), false).parse_sequence_example(
            "x",
            [Feature::fixed("id", Dtype::I64, &[])],
            sequences,
        )
    };
    let both = vec![
        Feature::fixed("frames", Dtype::F32, &[2]),
        Feature::ragged("words", Dtype::Bytes),
    ];
    let (value, spec) = only(parse(both)).unwrap();
    assert_eq!(rendered(&value), "7 4 [[1 2] [3 4]] [a b c] [0 1 3]");
    assert_eq!(
        spec,
        "{n: i64[], id: i64[], frames: f32[?,2], words: ragged(values: bytes[?], row_splits: i64[?])}"
    );
    assert_eq!(
        shown(parse(vec![Feature::ragged("none", Dtype::I64)])),
        "7 4 [] [0]"
    );
    let missing = refusal(parse(vec![Feature::fixed("none", Dtype::I64, &[])]));
    assert!(missing.contains("feature list \"none\""), "{missing}");
}

fn lists() -> impl Strategy<Value = (Vec<i64>, Vec<f32>, Vec<Vec<u8>>)> {
    (
        prop::collection::vec(any::<i64>(), 0..4),
        prop::collection::vec((-100i16..100).prop_map(f32::from), 0..4),
        prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..5), 0..4),
    )
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn what_was_written_is_read(examples in prop::collection::vec(lists(), 1..4), packed: bool) {
        let records: Vec<Vec<u8>> = examples
            .iter()
            .map(|(ints, floats, bytes)| {
                let lists = [
                    ("i", List::Ints(ints.clone())),
                    ("other", List::Ints(vec![1])),
                    ("f", List::Floats(floats.clone())),
                    ("s", List::Bytes(bytes.clone())),
                ];
                example(&lists, packed)
            })
            .collect();
        let features = [("i", Dtype::I64), ("f", Dtype::F32), ("s", Dtype::Bytes)]
            .map(|(name, dtype)| Feature::ragged(name, dtype));
        let found = shown(of(&records, true).parse_example("x", features));
        fn ragged<T: ToString>(rows: impl Iterator<Item = Vec<T>>) -> String {
            let (mut values, mut splits) = (Vec::new(), vec!["0".to_owned()]);
            for row in rows {
                values.extend(row.iter().map(T::to_string));
                splits.push(values.len().to_string());
            }
            format!("[{}] [{}]", values.join(" "), splits.join(" "))
        }
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        let expected = [
            "7".to_owned(),
            ragged(examples.iter().map(|(ints, _, _)| ints.clone())),
            ragged(examples.iter().map(|(_, floats, _)| floats.clone())),
            ragged(examples.iter().map(|(_, _, bytes)| bytes.iter().map(text).collect())),
        ];
        prop_assert_eq!(found, expected.join(" "));
    }

    #[test]
    fn lists_of_features_have_their_rows(
        rows in prop::collection::vec(lists(), 0..4),
        id: i64,
        packed: bool,
    ) {
        let list = |rows: Vec<List>| -> Vec<u8> {
            rows.iter().flat_map(|row| field(1, &feature(row, packed))).collect()
        };
        let context = [("id", feature(&List::Ints(vec![id]), packed))];
        let sequences = [
            ("i", list(rows.iter().map(|(ints, ..)| List::Ints(ints.clone())).collect())),
            ("counts", list(rows.iter().map(|(ints, ..)| List::Ints(vec![ints.len() as i64])).collect())),
        ];
        let record = [field(1, &map(&context)), field(2, &map(&sequences))].concat();
        let wanted = [Feature::fixed("counts", Dtype::I64, &[]), Feature::ragged("i", Dtype::I64)];
        let found = shown(of(&[record], false).parse_sequence_example("x", [Feature::fixed("id", Dtype::I64, &[])], wanted));
        let (mut counts, mut values, mut splits) = (Vec::new(), Vec::new(), vec!["0".to_owned()]);
        for (ints, ..) in &rows {
            counts.push(ints.len().to_string());
            values.extend(ints.iter().map(i64::to_string));
            splits.push(values.len().to_string());
        }
        prop_assert_eq!(
            found,
            format!("7 {id} [{}] [{}] [{}]", counts.join(" "), values.join(" "), splits.join(" "))
        );
    }

    #[test]
    fn damaged_examples_never_panic(
        (ints, floats, bytes) in lists(),
        at: prop::sample::Index,
        byte: u8,
        cut: prop::sample::Index,
    ) {
        let lists = [("i", List::Ints(ints)), ("f", List::Floats(floats)), ("s", List::Bytes(bytes))];
        let mut record = example(&lists, true);
        let at = at.index(record.len());
        record[at] = byte;
        record.truncate(cut.index(record.len() + 1));
        let features = || [
            Feature::padded("i", Dtype::I64, &[2]),
            Feature::sparse("f", Dtype::F32),
            Feature::ragged("s", Dtype::String),
        ];
        let _ = only(of(&[record.clone(), record.clone()], true).parse_example("x", features()));
        let lists = features().into_iter().skip(1);
        let _ = only(of(&[record], false).parse_sequence_example("x", features().into_iter().take(1), lists));
    }

    #[test]
    fn arbitrary_text_is_no_danger(text in prop_oneof!["[{}\\[\\],:\"a0.-]{0,40}", ".{0,20}"]) {
        let fields = [JsonField::new("a", "a.0", Dtype::F32, &[None, Some(1)]), JsonField::new("b", "", Dtype::U8, &[])];
        let _ = only(of(&[text.clone().into_bytes()], false).parse_json("x", fields));
        let columns = [CsvField::new("a", Dtype::I32), CsvField::skipped(), CsvField::new("b", Dtype::String)];
        let _ = only(of(&[text.into_bytes()], true).decode_csv(DecodeCsv::new("x", columns)));
    }

    #[test]
    fn lines_are_read_as_they_were_written(rows in prop::collection::vec((any::<i32>(), "[a-z,\" ]{0,6}"), 1..4)) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let lines: Vec<Vec<u8>> = rows
            .iter()
            .map(|(number, text)| format!("{number},skipped,{}", quoted(text)).into_bytes())
            .collect();
        let columns = [CsvField::new("a", Dtype::I32), CsvField::skipped(), CsvField::new("b", Dtype::String)];
        let (value, _) = only(of(&lines, true).decode_csv(DecodeCsv::new("x", columns))).unwrap();
        let numbers: Vec<u8> = rows.iter().flat_map(|(number, _)| number.to_le_bytes()).collect();
        let found = value[1].settled().unwrap();
        prop_assert_eq!(found.contiguous().unwrap(), numbers);
        let mut texts = Vec::new();
        value[2].for_each_string(&mut |item| texts.push(String::from_utf8(item.to_vec()).unwrap()));
        let expected: Vec<String> = rows.into_iter().map(|(_, text)| text).collect();
        prop_assert_eq!(texts, expected);
    }
}

fn json(text: &str, fields: impl IntoIterator<Item = JsonField>) -> Dataset {
    of(&[text.as_bytes().to_vec()], false).parse_json("x", fields)
}

#[test]
fn declared_fields_of_json_become_components() {
    let text = r#"{"a": {"b": [[1, 2], [3, 4]], "c.d": "é"}, "list": [true, false], "none": null}"#;
    let fields = [
        JsonField::new("matrix", "a.b", Dtype::I16, &[None, Some(2)]),
        JsonField::new("one", "a.b.1.0", Dtype::F64, &[]),
        JsonField::new("dotted", "a.c.d", Dtype::String, &[]),
        JsonField::new("truths", "list", Dtype::Bool, &[None]),
        JsonField::new("absent", "none", Dtype::I64, &[Some(2)])
            .or(ConstantTensor::fixed([1i64, 2].map(i64::to_le_bytes).concat())),
    ];
    let (value, spec) = only(json(text, fields)).unwrap();
    assert_eq!(
        spec,
        "{n: i64[], matrix: i16[?,2], one: f64[], dotted: string[], truths: bool[?], absent: i64[2]}"
    );
    assert_eq!(value[1].dims(), [2, 2]);
    assert_eq!(value[2].contiguous().unwrap(), 3f64.to_le_bytes());
    assert_eq!(value[3].contiguous().unwrap(), "é".as_bytes());
    assert_eq!(value[4].contiguous().unwrap(), [1, 0]);
}

#[test]
fn json_that_is_not_as_declared_is_named() {
    let of = |text: &str, dtype: Dtype, dims: &[Option<u64>]| {
        refusal(json(text, [JsonField::new("f", "a", dtype, dims)]))
    };
    let cases = [
        (of("{", Dtype::I64, &[]), "invalid JSON"),
        (of("{}", Dtype::I64, &[]), "missing, and has no default"),
        (of(r#"{"a": 1.5}"#, Dtype::I64, &[]), "expected i64, found 1.5"),
        (of(r#"{"a": 300}"#, Dtype::U8, &[]), "expected u8, found 300"),
        (of(r#"{"a": "x"}"#, Dtype::F32, &[]), "expected f32, found \"x\""),
        (
            of(r#"{"a": [[1], [1, 2]]}"#, Dtype::I64, &[None, None]),
            "expected an array of 1 items, found 2",
        ),
        (
            of(r#"{"a": 1}"#, Dtype::I64, &[None]),
            "expected an array, found a number",
        ),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(of(&deep, Dtype::I64, &[]).contains("invalid JSON"));
}

#[test]
fn lines_that_are_not_as_declared_are_named() {
    let columns = || [CsvField::new("a", Dtype::I32), CsvField::new("b", Dtype::F32)];
    let refused = |line: &str| {
        refusal(of(&[line.as_bytes().to_vec()], false).decode_csv(DecodeCsv::new("x", columns())))
    };
    let cases = [
        ("1", "expected 2 values, found 1"),
        ("1,2,3", "expected 2 values, found 3 or more"),
        ("x,2", "column \"a\": expected a number of i32, found \"x\""),
        (",2", "column \"a\": the value is missing"),
        ("1,2\n3,4", "more than one line"),
    ];
    for (line, part) in cases {
        let message = refused(line);
        assert!(message.contains(part), "{line:?}: {message}");
    }
    let filled = DecodeCsv {
        delimiter: b';',
        missing: "NA".to_owned(),
        ..DecodeCsv::new(
            "x",
            [
                CsvField::new("a", Dtype::I64).or(ConstantTensor::fixed(5i64.to_le_bytes())),
                CsvField::new("b", Dtype::String),
            ],
        )
    };
    assert_eq!(
        shown(of(&[b"NA;\r\n".to_vec()], false).decode_csv(filled)),
        "7 5 "
    );
}

#[test]
fn strings_are_cut_into_ragged_parts() {
    let strings = of(&[b"a b".to_vec(), b"".to_vec(), b" c".to_vec()], true);
    let (value, spec) = only(strings.clone().split_ragged("x", None)).unwrap();
    assert_eq!(
        spec,
        "{n: i64[], x: ragged(values: bytes[?], row_splits: i64[4])}"
    );
    assert_eq!(rendered(&value), "7 [a b c] [0 2 2 3]");
    assert_eq!(
        shown(strings.split_ragged("x", Some(" "))),
        "7 [a b   c] [0 2 3 5]"
    );
}
