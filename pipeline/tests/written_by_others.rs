//! Tests of files that other libraries wrote. `fixtures/make.py` writes these files.

use std::path::Path;

use millstream_element::Dtype;
use millstream_pipeline::graph::{Columns, Compression, Dataset, Mds, Numpy, OnError, Table};
use millstream_pipeline::plan::{SourcePlan, plan_splits};
use millstream_pipeline::storage::Storage;

use crate::support::files::{Flat, elements, failure};
use crate::support::functions;

const ROWS: i64 = 5;

fn file(name: &str) -> Dataset {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Dataset::files(folder.join(name).to_str().unwrap())
}

fn read(dataset: Dataset) -> Vec<Vec<Flat>> {
    elements(&dataset.graph().unwrap())
}

fn text(row: i64) -> Flat {
    string(&format!("row {row} \u{e9}"))
}

fn string(text: &str) -> Flat {
    (Dtype::String, vec![], vec![text.as_bytes().to_vec()])
}

fn id(row: i64) -> Flat {
    (Dtype::I64, vec![], vec![row.to_le_bytes().to_vec()])
}

fn floats(dims: &[u64], items: &[f32]) -> Flat {
    (
        Dtype::F32,
        dims.to_vec(),
        items.iter().map(|item| item.to_le_bytes().to_vec()).collect(),
    )
}

fn each(element: impl Fn(i64) -> Vec<Flat>) -> Vec<Vec<Flat>> {
    (0..ROWS).map(element).collect()
}

#[test]
fn tensorflow_writes_records_that_are_read() {
    for (name, compression) in [
        ("examples.tfrecord", Compression::None),
        ("examples.tfrecord.gz", Compression::Gzip),
        ("examples.tfrecord.zlib", Compression::Zlib),
    ] {
        let found = read(file(name).tfrecord(compression));
        assert_eq!(found.len() as i64, ROWS, "{name}");
        for (row, element) in found.iter().enumerate() {
            let (_, _, example) = &element[0];
            let wanted = format!("row {row} \u{e9}").into_bytes();
            assert!(
                example[0].windows(wanted.len()).any(|part| part == wanted),
                "{name}"
            );
        }
    }
}

#[test]
fn webdataset_writes_samples_that_are_read() {
    let found = read(file("samples.tar").webdataset(["txt", "cls"], OnError::Raise));
    let bytes = |text: String| (Dtype::Bytes, vec![], vec![text.into_bytes()]);
    let expected = each(|row| {
        vec![
            bytes(format!("row {row} \u{e9}")),
            bytes(row.to_string()),
            string(&format!("{row:04}")),
        ]
    });
    assert_eq!(found, expected);
}

#[test]
fn numpy_writes_arrays_that_are_read() {
    let point = |row: i64| floats(&[2], &[row as f32 * 2.0, row as f32 * 2.0 + 1.0]);
    for name in ["points.npy", "points-big.npy"] {
        let found = read(file(name).npy(Numpy::rows(Columns::all())));
        assert_eq!(found, each(|row| vec![point(row)]), "{name}");
    }
    let found = read(file("arrays.npz").npz(Numpy::rows(Columns::all())));
    assert_eq!(found, each(|row| vec![id(row), point(row), text(row)]));
    let found = read(file("compressed.npz").npz(Numpy::rows(Columns::named(["points", "ids"]))));
    assert_eq!(found, each(|row| vec![point(row), id(row)]));
}

#[test]
fn pyarrow_writes_tables_that_are_read() {
    let ints = |items: Vec<i32>| {
        let bytes = items.iter().map(|item| item.to_le_bytes().to_vec()).collect();
        (Dtype::I32, vec![items.len() as u64], bytes)
    };
    let expected = each(|row| {
        let splits = [0i64, 1, 1].map(|split| split.to_le_bytes().to_vec()).to_vec();
        vec![
            id(row),
            text(row),
            string(["cat", "dog"][(row % 2) as usize]),
            ints((0..row as i32).collect()),
            (Dtype::I16, vec![1], vec![(row as i16).to_le_bytes().to_vec()]),
            (Dtype::I64, vec![3], splits),
            floats(&[2], &[row as f32, row as f32 + 0.5]),
            (Dtype::Bool, vec![], vec![vec![u8::from(row % 2 == 1)]]),
        ]
    });
    let all = || Table::rows(Columns::all());
    for compression in ["none", "snappy", "gzip", "zstd", "lz4"] {
        let found = read(file(&format!("table-{compression}.parquet")).parquet(all()));
        assert_eq!(found, expected, "{compression}");
    }
    for name in [
        "table-uncompressed.arrow",
        "table-lz4.arrow",
        "table-zstd.arrow",
        "table.arrows",
    ] {
        assert_eq!(read(file(name).arrow(all())), expected, "{name}");
    }
}

#[test]
fn mosaicml_streaming_writes_shards_that_are_read() {
    let expected = each(|row| {
        let count = row as u64 + 1;
        vec![
            id(row),
            text(row),
            floats(&[count, 2], &vec![row as f32; 2 * count as usize]),
            (
                Dtype::F64,
                vec![],
                vec![(row as f64 / 2.0).to_le_bytes().to_vec()],
            ),
            (Dtype::Bytes, vec![], vec![vec![row as u8]]),
            string(&format!("{{\"row\": {row}}}")),
        ]
    });
    for name in ["samples-plain.mds", "samples-zstd.mds"] {
        let columns = Columns::named(["id", "text", "points", "score", "raw", "note"]);
        assert_eq!(read(file(name).mds(Mds::new(columns))), expected, "{name}");
    }
}

#[test]
fn mds_shards_are_checked_against_their_index() {
    let expected = each(|row| vec![id(row), text(row)]);
    for name in ["shards-plain", "shards-zstd"] {
        let shards = file(&format!("{name}/index.json")).mds(Mds::new(Columns::named(["id", "text"])));
        assert_eq!(read(shards.clone()), expected, "{name}");
        let graph = shards.clone().graph().unwrap();
        let plan = plan_splits(&graph, &functions(), &Storage::default()).unwrap();
        let SourcePlan::Listed { items } = &plan.sources[0] else {
            panic!("{plan:?}")
        };
        assert_eq!(items.len(), 3, "expected one split per shard");
    }
}

#[test]
fn a_shard_unlike_its_index_is_an_error() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shards-plain");
    for (says, damage) in [
        (
            "its index states",
            (|shard: &mut Vec<u8>| shard.truncate(shard.len() - 1)) as fn(&mut Vec<u8>),
        ),
        ("has the checksum", |shard| *shard.last_mut().unwrap() ^= 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&fixture).unwrap() {
            let entry = entry.unwrap();
            let mut content = std::fs::read(entry.path()).unwrap();
            if entry.file_name() == "shard.00001.mds" {
                damage(&mut content);
            }
            std::fs::write(directory.path().join(entry.file_name()), content).unwrap();
        }
        let shards = |on_error| {
            let columns = Columns::named(["id", "text"]);
            let mds = Mds {
                on_error,
                ..Mds::new(columns)
            };
            Dataset::files(format!("{}/index.json", directory.path().display())).mds(mds)
        };
        let (before, message) = failure(shards(OnError::Raise));
        assert_eq!(before, 2);
        assert!(
            message.contains(says) && message.contains("shard.00001.mds"),
            "{message}"
        );
        let kept: Vec<_> = each(|row| vec![id(row), text(row)]);
        assert_eq!(read(shards(OnError::Skip)), [&kept[..2], &kept[4..]].concat());
    }
}
