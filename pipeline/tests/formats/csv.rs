//! Tests of the rows of CSV files.

use std::io::Write;

use flate2::write::GzEncoder;
use millstream_element::Dtype;
use millstream_pipeline::graph::{Compression, Csv, CsvColumn, OnError};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{Flat, all, damaged, elements, failure, files, rest, survives};
use crate::support::open;

fn columns() -> [CsvColumn; 3] {
    [
        CsvColumn::required("n", Dtype::I32),
        CsvColumn::with_default("x", Dtype::F64, "-1.5"),
        CsvColumn::with_default("text", Dtype::String, ""),
    ]
}

fn scalar(dtype: Dtype, bytes: &[u8]) -> Flat {
    (dtype, Vec::new(), vec![bytes.to_vec()])
}

fn row(n: i32, x: f64, text: &str) -> Vec<Flat> {
    vec![
        scalar(Dtype::I32, &n.to_le_bytes()),
        scalar(Dtype::F64, &x.to_le_bytes()),
        scalar(Dtype::String, text.as_bytes()),
    ]
}

/// Returns `text` as a quoted field, as RFC 4180 defines.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Returns a CSV file of `rows`, and the elements that are expected from the file.
fn written(rows: &[(i32, Option<f64>, String)], end: &str, header: bool) -> (String, Vec<Vec<Flat>>) {
    let mut file = if header {
        format!("text,n,other,x{end}")
    } else {
        String::new()
    };
    let mut expected = Vec::new();
    for (n, x, text) in rows {
        let number = x.map(|x| x.to_string()).unwrap_or_default();
        let text_field = quoted(text);
        file += &if header {
            format!("{text_field},{n},ignored,{number}{end}")
        } else {
            format!("{n},{number},{text_field}{end}")
        };
        expected.push(row(*n, x.unwrap_or(-1.5), text));
    }
    (file, expected)
}

fn any_rows() -> impl Strategy<Value = Vec<(i32, Option<f64>, String)>> {
    let row = (
        any::<i32>(),
        prop::option::of(-1e9f64..1e9),
        "[ab\",\r\n\u{e9}]{0,6}",
    );
    prop::collection::vec(row, 0..6)
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn csv_rows_are_read_from_every_position(
        contents in prop::collection::vec(any_rows(), 1..3),
        end in prop::sample::select(vec!["\n", "\r\n"]),
        header: bool,
        gzip: bool,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for rows in &contents {
            let (file, found) = written(rows, end, header);
            expected.extend(found);
            bytes.push(if gzip {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(file.as_bytes()).unwrap();
                encoder.finish().unwrap()
            } else {
                file.into_bytes()
            });
        }
        let directory = files(&bytes);
        let compression = if gzip { Compression::Gzip } else { Compression::None };
        let csv = Csv { header, compression, ..Csv::new(columns()) };
        prop_assert_eq!(elements(&all(directory.path()).csv(csv).graph().unwrap()), expected);
    }

    #[test]
    fn no_damage_does_harm(rows in any_rows(), at: prop::sample::Index, change: Option<u8>, header: bool) {
        let (file, _) = written(&rows, "\n", true);
        let directory = files(&[damaged(file.as_bytes(), at.index(file.len()), change)]);
        survives(all(directory.path()).csv(Csv { header, ..Csv::new(columns()) }));
    }
}

#[test]
fn a_broken_row_is_named_or_left_out() {
    let directory = files(&["1,2,a\n\nx,2,b\n3,4\n,1,d\n4,,\"e\"\n"]);
    let (before, message) = failure(all(directory.path()).csv(Csv::new(columns())));
    assert_eq!(before, 1);
    assert!(
        message.contains("expected i32, found \"x\"") && message.contains("/0000 at byte 7, key \"row 2\""),
        "{message}"
    );
    let skipping = Csv {
        on_error: OnError::Skip,
        ..Csv::new(columns())
    };
    let graph = all(directory.path()).csv(skipping).graph().unwrap();
    assert_eq!(elements(&graph), [row(1, 2.0, "a"), row(4, -1.5, "e")]);
    let mut executor = open(&graph);
    rest(&mut executor);
    assert_eq!(executor.skipped(), 3);
}

#[test]
fn fields_are_chosen_by_index() {
    let directory = files(&["9;NA;1\n8;2.5;7;more\n"]);
    let csv = Csv {
        delimiter: b';',
        missing: Some("NA".to_owned()),
        ..Csv::new([
            CsvColumn::required("last", Dtype::U8).at(2),
            CsvColumn::with_default("middle", Dtype::F32, "0").at(1),
        ])
    };
    let pair = |last: u8, middle: f32| {
        vec![
            scalar(Dtype::U8, &[last]),
            scalar(Dtype::F32, &middle.to_le_bytes()),
        ]
    };
    let graph = all(directory.path()).csv(csv).graph().unwrap();
    assert_eq!(elements(&graph), [pair(1, 0.0), pair(7, 2.5)]);
}

#[test]
fn unclosed_quotes_and_missing_columns_are_errors() {
    let directory = files(&["1,2,\"abc\n"]);
    let (_, message) = failure(all(directory.path()).csv(Csv::new(columns())));
    assert!(message.contains("expected a closing quote"), "{message}");
    let directory = files(&["n,y,text\n1,2,3\n"]);
    let (_, message) = failure(all(directory.path()).csv(Csv::with_header(columns())));
    assert!(
        message.contains("no column \"x\"") && message.contains("n,y,text"),
        "{message}"
    );
}

#[test]
fn absurd_csv_parameters_are_refused() {
    let refused = |csv: Csv| {
        let dataset = millstream_pipeline::graph::Dataset::files("*").csv(csv);
        dataset.graph().unwrap_err().to_string()
    };
    assert!(refused(Csv::new([])).contains("names no columns"));
    let delimiter = Csv {
        delimiter: b'"',
        ..Csv::new(columns())
    };
    assert!(refused(delimiter).contains("cannot have the delimiter"));
    assert!(refused(Csv::new([CsvColumn::required("h", Dtype::F16)])).contains("cast it"));
    let twice = || CsvColumn::required("a", Dtype::I8);
    assert!(refused(Csv::new([twice(), twice()])).contains("twice"));
}
