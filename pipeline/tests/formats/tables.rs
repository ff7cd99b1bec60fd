//! Tests of Parquet and Arrow IPC files.

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder, StringDictionaryBuilder,
};
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use millstream_element::Dtype;
use millstream_pipeline::graph::{Columns, Dataset, OnError, Table};
use millstream_testkit::rounds;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::support::files::{Flat, all, damaged, elements, failure, files, survives};
use crate::support::{functions, open};

#[derive(Debug, Clone)]
struct Row {
    id: Option<i64>,
    flag: bool,
    text: String,
    class: String,
    point: [f32; 2],
    list: Vec<i32>,
    nested: Vec<Vec<i32>>,
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let list = || prop::collection::vec(any::<i32>(), 0..3);
    let row = (
        any::<i64>(),
        any::<bool>(),
        "[a-c\u{e9}]{0,4}",
        prop::sample::select(vec!["cat", "dog"]),
        any::<[i8; 2]>(),
        list(),
        prop::collection::vec(list(), 0..3),
    );
    let row = row.prop_map(|(id, flag, text, class, point, list, nested)| Row {
        id: Some(id),
        flag,
        text,
        class: class.to_owned(),
        point: point.map(f32::from),
        list,
        nested,
    });
    prop::collection::vec(row, 1..8)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut class = StringDictionaryBuilder::<Int8Type>::new();
    let mut point = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    let mut list = ListBuilder::new(Int32Builder::new());
    let mut nested = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    for row in rows {
        class.append(&row.class).unwrap();
        row.point
            .iter()
            .for_each(|item| point.values().append_value(*item));
        point.append(true);
        list.append_value(row.list.iter().copied().map(Some));
        for inner in &row.nested {
            nested.values().append_value(inner.iter().copied().map(Some));
        }
        nested.append(true);
    }
    let inner: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.flag)).collect::<BooleanArray>());
    let of = StructArray::from(vec![(
        Arc::new(Field::new("flag", DataType::Boolean, true)),
        inner,
    )]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(rows.iter().map(|row| row.id).collect::<Int64Array>()),
        ),
        (
            "text",
            Arc::new(
                rows.iter()
                    .map(|row| Some(row.text.as_str()))
                    .collect::<StringArray>(),
            ),
        ),
        ("class", Arc::new(class.finish())),
        ("point", Arc::new(point.finish())),
        ("list", Arc::new(list.finish())),
        ("nested", Arc::new(nested.finish())),
        ("of", Arc::new(of)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn numbers<T: Copy, const N: usize>(items: &[T], bytes: fn(T) -> [u8; N]) -> Vec<Vec<u8>> {
    items.iter().map(|item| bytes(*item).to_vec()).collect()
}

/// Returns the row splits of lists with the given lengths.
fn splits(lengths: impl Iterator<Item = usize>) -> Flat {
    let mut splits = vec![0i64];
    splits.extend(lengths.scan(0, |end, length| {
        *end += length as i64;
        Some(*end)
    }));
    (
        Dtype::I64,
        vec![splits.len() as u64],
        numbers(&splits, i64::to_le_bytes),
    )
}

fn ints(items: &[i32]) -> Flat {
    (
        Dtype::I32,
        vec![items.len() as u64],
        numbers(items, i32::to_le_bytes),
    )
}

/// Returns the expected element of a row.
fn element(row: &Row) -> Vec<Flat> {
    let text = |text: &str| (Dtype::String, vec![], vec![text.as_bytes().to_vec()]);
    vec![
        (Dtype::I64, vec![], numbers(&[row.id.unwrap()], i64::to_le_bytes)),
        text(&row.text),
        text(&row.class),
        (Dtype::F32, vec![2], numbers(&row.point, f32::to_le_bytes)),
        ints(&row.list),
        ints(&row.nested.concat()),
        splits(row.nested.iter().map(Vec::len)),
        (Dtype::Bool, vec![], vec![vec![u8::from(row.flag)]]),
    ]
}

/// Returns the expected element of several rows, read at once.
fn elements_of(rows: &[Row]) -> Vec<Flat> {
    let count = rows.len() as u64;
    let text = |texts: Vec<&String>| {
        let items = texts.into_iter().map(|text| text.as_bytes().to_vec()).collect();
        (Dtype::String, vec![count], items)
    };
    let ids: Vec<i64> = rows.iter().map(|row| row.id.unwrap()).collect();
    let lists: Vec<i32> = rows.iter().flat_map(|row| row.list.clone()).collect();
    let nested: Vec<Vec<i32>> = rows.iter().flat_map(|row| row.nested.clone()).collect();
    let points: Vec<f32> = rows.iter().flat_map(|row| row.point).collect();
    vec![
        (Dtype::I64, vec![count], numbers(&ids, i64::to_le_bytes)),
        text(rows.iter().map(|row| &row.text).collect()),
        text(rows.iter().map(|row| &row.class).collect()),
        (Dtype::F32, vec![count, 2], numbers(&points, f32::to_le_bytes)),
        ints(&lists),
        splits(rows.iter().map(|row| row.list.len())),
        ints(&nested.concat()),
        splits(rows.iter().map(|row| row.nested.len())),
        splits(nested.iter().map(Vec::len)),
        (
            Dtype::Bool,
            vec![count],
            rows.iter().map(|row| vec![u8::from(row.flag)]).collect(),
        ),
    ]
}

/// The file format in which a table is written.
#[derive(Debug, Clone, Copy)]
enum Written {
    Parquet(Compression),
    File(Option<CompressionType>),
    Stream,
}

impl Written {
    fn bytes(self, rows: &[Row], at_once: usize) -> Vec<u8> {
        let batches: Vec<RecordBatch> = rows.chunks(at_once).map(batch).collect();
        let schema = batches[0].schema();
        match self {
            Written::Parquet(compression) => {
                let properties = WriterProperties::builder()
                    .set_compression(compression)
                    .set_max_row_group_row_count(Some(at_once));
                let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties.build())).unwrap();
                batches.iter().for_each(|batch| writer.write(batch).unwrap());
                writer.into_inner().unwrap()
            }
            Written::File(compression) => {
                let options = IpcWriteOptions::default()
                    .try_with_compression(compression)
                    .unwrap();
                let mut bytes = Vec::new();
                let mut writer = FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
                // An Arrow file may have only one dictionary, and the first batch defines the
                // dictionary.
                batches
                    .iter()
                    .take(1)
                    .for_each(|batch| writer.write(batch).unwrap());
                writer.finish().unwrap();
                drop(writer);
                bytes
            }
            Written::Stream => {
                let mut bytes = Vec::new();
                let mut writer = StreamWriter::try_new(&mut bytes, &schema).unwrap();
                batches.iter().for_each(|batch| writer.write(batch).unwrap());
                writer.finish().unwrap();
                drop(writer);
                bytes
            }
        }
    }

    /// Returns the rows that are written, out of `rows`.
    fn kept(self, rows: &[Row], at_once: usize) -> &[Row] {
        match self {
            Written::File(_) => &rows[..rows.len().min(at_once)],
            Written::Parquet(_) | Written::Stream => rows,
        }
    }

    fn read(self, files: Dataset, table: Table) -> Dataset {
        match self {
            Written::Parquet(_) => files.parquet(table),
            Written::File(_) | Written::Stream => files.arrow(table),
        }
    }
}

fn any_written() -> impl Strategy<Value = Written> {
    prop::sample::select(vec![
        Written::Parquet(Compression::UNCOMPRESSED),
        Written::Parquet(Compression::SNAPPY),
        Written::Parquet(Compression::LZ4_RAW),
        Written::Parquet(Compression::ZSTD(ZstdLevel::default())),
        Written::File(None),
        Written::File(Some(CompressionType::LZ4_FRAME)),
        Written::File(Some(CompressionType::ZSTD)),
        Written::Stream,
    ])
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn table_rows_are_read_from_every_position(
        rows in any_rows(),
        at_once in 1usize..4,
        written in any_written(),
    ) {
        let directory = files(&[written.bytes(&rows, at_once), written.bytes(&rows, at_once)]);
        let graph = written.read(all(directory.path()), Table::rows(Columns::all())).graph().unwrap();
        let once: Vec<_> = written.kept(&rows, at_once).iter().map(element).collect();
        prop_assert_eq!(elements(&graph), [once.clone(), once].concat());
    }

    #[test]
    fn lists_become_ragged_batches(
        rows in any_rows(),
        at_once in 1usize..4,
        size in 1usize..5,
        written in any_written(),
    ) {
        let directory = files(&[written.bytes(&rows, at_once)]);
        let table = Table::batches(size as u64, Columns::all());
        let graph = written.read(all(directory.path()), table).graph().unwrap();
        let expected: Vec<_> = written.kept(&rows, at_once).chunks(size).map(elements_of).collect();
        prop_assert_eq!(elements(&graph), expected);
    }

    #[test]
    fn columns_are_chosen_in_the_order_asked_for(rows in any_rows(), written in any_written()) {
        let directory = files(&[written.bytes(&rows, 8)]);
        let table = Table::rows(Columns::named(["list", "id"]));
        let graph = written.read(all(directory.path()), table).graph().unwrap();
        let expected = rows.iter().map(|row| {
            let all = element(row);
            vec![all[4].clone(), all[0].clone()]
        });
        prop_assert_eq!(elements(&graph), expected.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(rounds(300))]

    #[test]
    fn no_damage_does_harm(
        rows in any_rows(),
        written in any_written(),
        at: prop::sample::Index,
        change in prop::option::of(prop::sample::select(vec![0u8, 1, 0x7f, 0x80, 0xff])),
        batches: bool,
    ) {
        let whole = written.bytes(&rows, 3);
        let directory = files(&[damaged(&whole, at.index(whole.len()), change)]);
        let intact = files(&[whole]);
        let like = Columns::all().like(format!("{}/*", intact.path().display()));
        let table = if batches { Table::batches(2, like) } else { Table::rows(like) };
        survives(written.read(all(directory.path()), table));
    }
}

#[test]
fn nulls_are_refused_skipped_or_empty() {
    let mut rows: Vec<Row> = (0..3)
        .map(|id| Row {
            id: Some(id),
            flag: false,
            text: "t".to_owned(),
            class: "cat".to_owned(),
            point: [0.0; 2],
            list: vec![1],
            nested: vec![],
        })
        .collect();
    rows[1].id = None;
    for written in [Written::Parquet(Compression::SNAPPY), Written::Stream] {
        let directory = files(&[written.bytes(&rows, 2)]);
        let read = |table| written.read(all(directory.path()), table);
        let id = || Columns::named(["id"]);
        let (before, message) = failure(read(Table::rows(id())));
        assert_eq!(before, 1);
        assert!(
            message.contains("column \"id\" is null") && message.contains("key \"row 1\""),
            "{message}"
        );
        let (_, message) = failure(read(Table::batches(3, id())));
        assert!(message.contains("in row 1 column \"id\" is null"), "{message}");
        let skipping = Table {
            on_error: OnError::Skip,
            ..Table::rows(id())
        };
        let found = |ids: &[i64]| -> Vec<Vec<Flat>> {
            ids.iter()
                .map(|id| vec![(Dtype::I64, vec![], vec![id.to_le_bytes().to_vec()])])
                .collect()
        };
        assert_eq!(elements(&read(skipping).graph().unwrap()), found(&[0, 2]));
        let filled = Table {
            nulls_as_default: true,
            ..Table::rows(id())
        };
        assert_eq!(elements(&read(filled).graph().unwrap()), found(&[0, 0, 2]));
    }
}

#[test]
fn missing_and_differing_columns_are_errors() {
    let written = Written::Parquet(Compression::UNCOMPRESSED);
    let row = Row {
        id: Some(1),
        flag: true,
        text: String::new(),
        class: String::new(),
        point: [0.0; 2],
        list: vec![],
        nested: vec![],
    };
    let other =
        RecordBatch::try_from_iter([("id", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), other.schema(), None).unwrap();
    writer.write(&other).unwrap();
    let directory = files(&[written.bytes(&[row], 1), writer.into_inner().unwrap()]);
    let (before, message) = failure(all(directory.path()).parquet(Table::rows(Columns::named(["id"]))));
    assert_eq!(before, 1);
    assert!(
        message.contains("expected elements of") && message.contains("/0001"),
        "{message}"
    );
    let missing = all(directory.path())
        .parquet(Table::rows(Columns::named(["nope"])))
        .graph()
        .unwrap();
    let message = missing.facts(&functions()).unwrap_err().to_string();
    assert!(
        message.contains("no column \"nope\"; it has: id, text"),
        "{message}"
    );
    let directory = files(&["no table"]);
    let spec =
        millstream_element::ElementSpec::dict([("id", millstream_element::TensorSpec::scalar(Dtype::I64))]);
    let declared = Columns::all().declared(spec.unwrap());
    let parquet = all(directory.path())
        .parquet(Table::rows(declared.clone()))
        .graph()
        .unwrap();
    let message = open(&parquet).next().unwrap_err().to_string();
    assert!(message.contains("Parquet file"), "{message}");
    let arrow = all(directory.path())
        .arrow(Table::rows(declared))
        .graph()
        .unwrap();
    let message = open(&arrow).next().unwrap_err().to_string();
    assert!(message.contains("Arrow IPC file"), "{message}");
}

#[test]
fn an_overdeep_schema_is_refused_before_decoding() {
    // A schema of nested groups, deep enough to overflow any stack.
    const GROUPS: u32 = 1 << 18;
    let mut metadata = vec![0x15, 2, 0x19, 0xfc];
    let varint = |mut number: u32, into: &mut Vec<u8>| {
        while number > 0x7f {
            into.push(0x80 | (number & 0x7f) as u8);
            number >>= 7;
        }
        into.push(number as u8);
    };
    varint(GROUPS, &mut metadata);
    for group in 1..=GROUPS {
        // Each group states its name and its number of children.
        let children = u8::from(group < GROUPS);
        metadata.extend([0x48, 1, b'a', 0x15, 2 * children, 0]);
    }
    metadata.push(0);
    let mut file = b"PAR1".to_vec();
    file.extend(&metadata);
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    let directory = files(&[file]);
    let rows = all(directory.path()).parquet(Table::rows(Columns::all()));
    let message = rows.graph().unwrap().facts(&functions()).unwrap_err().to_string();
    assert!(
        message.contains("deep") && message.contains("the limit"),
        "{message}"
    );
}

#[test]
fn an_inflated_large_page_is_refused() {
    const ROWS: usize = 3 << 20;
    let written = |rows_of_a_page: usize| {
        let zeros = Arc::new(arrow_array::Int64Array::from(vec![0; ROWS])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("id", zeros)]).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(rows_of_a_page)
            .set_write_batch_size(rows_of_a_page)
            .set_max_row_group_row_count(Some(ROWS))
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let read = |file: Vec<u8>| {
        let directory = files(&[file]);
        let mut executor = open(
            &all(directory.path())
                .parquet(Table::batches(ROWS as u64, Columns::all()))
                .graph()
                .unwrap(),
        );
        executor.next()
    };
    assert!(read(written(ROWS / 16)).unwrap().is_some());
    let message = read(written(ROWS)).unwrap_err().to_string();
    assert!(message.contains("the limit is 1000 times as many"), "{message}");
}
