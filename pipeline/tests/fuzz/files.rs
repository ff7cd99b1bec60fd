//! Fuzz targets of files, one for each format.

use millstream_element::{Dtype, TensorSpec};
use millstream_pipeline::graph::{
    Columns, Compression, Csv, CsvColumn, Dataset, FixedLength, JsonColumn, JsonLines, Mds, Numpy, OnError,
    SqlColumn, Sqlite, Table,
};

use super::{RANDOM_INPUTS, Scratch, repaired};
use crate::support::scalar;

#[test]
fn tfrecord() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            for bytes in [bytes, &repaired::tfrecord(bytes)] {
                scratch.read("file", bytes, |files| files.tfrecord(Compression::None));
            }
            scratch.read("file", bytes, |files| files.tfrecord(Compression::Gzip));
            scratch.read("file", bytes, |files| files.tfrecord(Compression::Zlib));
        });
}

#[test]
fn elements() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            for bytes in [bytes, &repaired::elements(bytes)] {
                scratch.read("file", bytes, |files| files.elements(scalar()));
            }
        });
}

#[test]
fn webdataset() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            for on_error in [OnError::Raise, OnError::Skip] {
                scratch.read("file", bytes, |files| files.webdataset(["cls", "jpg"], on_error));
            }
        });
}

#[test]
fn numpy() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| files.npy(Numpy::rows(Columns::all())));
            scratch.read("file", bytes, |files| files.npy(Numpy::whole(Columns::all())));
        });
}

#[test]
fn numpy_archives() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| files.npz(Numpy::rows(Columns::all())));
        });
}

#[test]
fn mds() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| files.mds(Mds::new(Columns::all())));
        });
}

#[test]
fn mds_indexes() {
    let scratch = Scratch::new();
    let shards = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shards-plain");
    for entry in std::fs::read_dir(shards).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), scratch.path(entry.file_name().to_str().unwrap())).unwrap();
    }
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("index.json", bytes, |files| files.mds(Mds::new(Columns::all())));
        });
}

#[test]
fn csv() {
    let scratch = Scratch::new();
    let columns = [
        CsvColumn::required("n", Dtype::I64),
        CsvColumn::required("x", Dtype::F32),
        CsvColumn::required("s", Dtype::String),
    ];
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            for header in [false, true] {
                let csv = Csv {
                    header,
                    on_error: OnError::Skip,
                    ..Csv::new(columns.clone())
                };
                scratch.read("file", bytes, |files| files.csv(csv.clone()));
            }
        });
}

#[test]
fn json_lines() {
    let scratch = Scratch::new();
    let columns = || {
        [
            JsonColumn::required("n", TensorSpec::scalar(Dtype::I64)).unwrap(),
            JsonColumn::required("a.b", TensorSpec::with_dims(Dtype::F32, &[None, None])).unwrap(),
        ]
    };
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| {
                files.json_lines(JsonLines {
                    on_error: OnError::Skip,
                    ..JsonLines::new(columns())
                })
            });
        });
}

#[test]
fn parquet() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| files.parquet(Table::rows(Columns::all())));
        });
}

#[test]
fn arrow() {
    let scratch = Scratch::new();
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| {
                files.arrow(Table::batches(2, Columns::all()))
            });
        });
}

#[test]
fn sqlite() {
    let scratch = Scratch::new();
    let columns = [
        SqlColumn::required("n", Dtype::I64),
        SqlColumn::required("s", Dtype::String),
    ];
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, |files| {
                files.sqlite(Sqlite::new("select n, s from t", columns.clone()))
            });
        });
}

#[test]
fn lines_and_records_of_one_length() {
    let scratch = Scratch::new();
    let layout = FixedLength {
        record_bytes: 3,
        header_bytes: 1,
        footer_bytes: 2,
        compression: Compression::None,
    };
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            scratch.read("file", bytes, Dataset::text_lines);
            scratch.read("file", bytes, |files| files.fixed_length_records(layout));
        });
}
