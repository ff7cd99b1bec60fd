//! Tests of MosaicML shards.

use millstream_element::Dtype;
use millstream_pipeline::graph::{Columns, Mds, OnError};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{Flat, all, damaged, elements, failure, files, survives};
use crate::support::functions;

const COLUMNS: [(&str, &str, Option<u32>); 5] = [
    ("array", "ndarray:int16", None),
    ("class", "int", Some(8)),
    ("image", "jpeg:90", None),
    ("score", "float32", Some(4)),
    ("text", "str", None),
];

type Sample = (Vec<i16>, i64, Vec<u8>, f32, String);

/// Returns an MDS shard, written independently of the crate from the description of the format.
fn shard(columns: &[(&str, &str, Option<u32>)], samples: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let quoted = |text: &str| format!("\"{text}\"");
    let config = format!(
        "{{\"column_encodings\": {}, \"column_names\": {}, \"column_sizes\": {}, \"format\": \"mds\", \"version\": 2}}",
        list(columns.iter().map(|(_, encoding, _)| quoted(encoding)).collect()),
        list(columns.iter().map(|(name, ..)| quoted(name)).collect()),
        list(
            columns
                .iter()
                .map(|(.., size)| size.map_or("null".to_owned(), |size| size.to_string()))
                .collect()
        ),
    );
    let samples: Vec<Vec<u8>> = samples
        .iter()
        .map(|values| {
            let varying = values
                .iter()
                .zip(columns)
                .filter(|(_, (.., size))| size.is_none());
            let sizes = varying.flat_map(|(value, _)| (value.len() as u32).to_le_bytes());
            sizes.chain(values.concat()).collect()
        })
        .collect();
    let mut begin = 4 + 4 * (samples.len() as u32 + 1) + config.len() as u32;
    let mut bytes = (samples.len() as u32).to_le_bytes().to_vec();
    bytes.extend(begin.to_le_bytes());
    for sample in &samples {
        begin += sample.len() as u32;
        bytes.extend(begin.to_le_bytes());
    }
    [bytes, config.into_bytes(), samples.concat()].concat()
}

fn written(samples: &[Sample]) -> Vec<u8> {
    let values = samples.iter().map(|(array, class, image, score, text)| {
        let items = array.iter().flat_map(|item| item.to_le_bytes());
        // The header of the array states one dimension, whose size takes one byte.
        let array = [1 << 2, array.len() as u8].into_iter().chain(items).collect();
        vec![
            array,
            class.to_le_bytes().to_vec(),
            image.clone(),
            score.to_le_bytes().to_vec(),
            text.clone().into_bytes(),
        ]
    });
    shard(&COLUMNS, &values.collect::<Vec<_>>())
}

fn element((array, class, image, score, text): &Sample) -> Vec<Flat> {
    let items = array.iter().map(|item| item.to_le_bytes().to_vec()).collect();
    vec![
        (Dtype::I16, vec![array.len() as u64], items),
        (Dtype::I64, vec![], vec![class.to_le_bytes().to_vec()]),
        (Dtype::Bytes, vec![], vec![image.clone()]),
        (Dtype::F32, vec![], vec![score.to_le_bytes().to_vec()]),
        (Dtype::String, vec![], vec![text.clone().into_bytes()]),
    ]
}

fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..6);
    let array = prop::collection::vec(any::<i16>(), 1..4);
    let score = (-9i8..9).prop_map(f32::from);
    prop::collection::vec((array, any::<i64>(), bytes, score, "[a-z\u{e9}]{0,5}"), 1..6)
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn mds_samples_are_read_from_every_position(first in any_samples(), second in any_samples()) {
        let directory = files(&[written(&first), compressed(&written(&second))]);
        let graph = all(directory.path()).mds(Mds::new(Columns::all())).graph().unwrap();
        let expected: Vec<_> = first.iter().chain(&second).map(element).collect();
        prop_assert_eq!(elements(&graph), expected);
    }
}

proptest! {
    #![proptest_config(rounds(200))]

    #[test]
    fn no_damage_does_harm(
        samples in any_samples(),
        at: prop::sample::Index,
        change: Option<u8>,
        is_compressed: bool,
        skips: bool,
    ) {
        let whole = written(&samples);
        let whole = if is_compressed { compressed(&whole) } else { whole };
        let directory = files(&[damaged(&whole, at.index(whole.len()), change)]);
        let intact = files(&[whole]);
        let like = Columns::all().like(format!("{}/*", intact.path().display()));
        let on_error = if skips { OnError::Skip } else { OnError::Raise };
        let mds = Mds { on_error, ..Mds::new(like) };
        let ended = survives(all(directory.path()).mds(mds));
        prop_assert!(ended || !skips);
    }
}

#[test]
fn encodings_have_types_and_never_run_code() {
    let columns = [
        ("a", "ndarray", None),
        ("b", "ndarray:uint8:2,3", Some(6)),
        ("c", "str_int", None),
        ("d", "str_float", None),
        ("e", "json", None),
        ("f", "png", None),
        ("g", "uint16", Some(2)),
    ];
    let sample = vec![
        vec![34, 2 << 2 | 1, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 128, 63],
        vec![1, 2, 3, 4, 5, 6],
        b"-7".to_vec(),
        b"0.5".to_vec(),
        b"{}".to_vec(),
        b"png".to_vec(),
        vec![1, 2],
    ];
    let directory = files(&[shard(&columns, &[sample])]);
    let graph = all(directory.path())
        .mds(Mds::new(Columns::all()))
        .graph()
        .unwrap();
    let spec = graph.facts(&functions()).unwrap().spec.to_string();
    for expected in [
        "f32[?,?]",
        "u8[2,3]",
        "c: i64",
        "d: f64",
        "e: string",
        "f: bytes",
        "g: u16",
    ] {
        assert!(spec.contains(expected), "{spec}");
    }
    let found = elements(&graph);
    assert_eq!(found[0][0].1, [1, 2]);
    assert_eq!(found[0][2].2, [(-7i64).to_le_bytes()]);
    let directory = files(&[shard(&[("p", "pkl", None)], &[])]);
    let graph = all(directory.path())
        .mds(Mds::new(Columns::all()))
        .graph()
        .unwrap();
    let message = graph.facts(&functions()).unwrap_err().to_string();
    assert!(message.contains("pickled"), "{message}");
}

#[test]
fn a_truncated_shard_is_an_error() {
    let whole = written(&[(vec![1], 2, vec![], 3.0, String::new())]);
    let directory = files(&[&whole[..], &whole[..whole.len() - 1]]);
    let (before, message) = failure(all(directory.path()).mds(Mds::new(Columns::all())));
    assert_eq!(before, 1);
    assert!(
        message.contains("truncated") && message.contains("/0001"),
        "{message}"
    );
}
