//! Tests of Parquet files of which only some row groups or some columns are read.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use millstream_pipeline::exec::{ExecContext, Executor};
use millstream_pipeline::graph::{Columns, Dataset, FilePart, Graph, OnError, Options, Rewrites, Table, col};
use millstream_pipeline::plan::{ListedItem, SourcePlan, SplitPlan};
use millstream_testkit::rounds;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;

use crate::support::files::{all, files};
use crate::support::{context, open, rendered};

#[derive(Debug, Clone)]
struct Row {
    id: Option<i64>,
    text: Option<String>,
    list: Vec<i32>,
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let is_there = || prop::bool::weighted(0.9);
    let row = (
        0i64..100,
        is_there(),
        "[a-c]{0,3}",
        is_there(),
        prop::collection::vec(any::<i32>(), 0..3),
    );
    let row = row.prop_map(|(id, has_id, text, has_text, list)| Row {
        id: has_id.then_some(id),
        text: has_text.then_some(text),
        list,
    });
    prop::collection::vec(row, 1..12)
}

/// Returns a Parquet file of `rows` with `in_group` rows per row group. `statistics` decides whether
/// the file states its null counts.
fn written(rows: &[Row], in_group: usize, statistics: EnabledStatistics) -> Vec<u8> {
    let batches: Vec<RecordBatch> = rows.chunks(in_group).map(batch).collect();
    let properties = WriterProperties::builder()
        .set_statistics_enabled(statistics)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), Some(properties)).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut list = ListBuilder::new(Int32Builder::new());
    for row in rows {
        list.append_value(row.list.iter().copied().map(Some));
    }
    let columns: [(&str, ArrayRef); 3] = [
        (
            "id",
            Arc::new(rows.iter().map(|row| row.id).collect::<Int64Array>()),
        ),
        (
            "text",
            Arc::new(rows.iter().map(|row| row.text.clone()).collect::<StringArray>()),
        ),
        ("list", Arc::new(list.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Returns all elements with their origins, and the error if the read failed.
fn drained(executor: &mut Executor) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match executor.next() {
            Ok(Some(item)) => found.push(format!("{} of {:?}", rendered(&item.value), item.origin)),
            Ok(None) => return found,
            Err(error) => {
                found.push(error.to_string());
                return found;
            }
        }
    }
}

fn switched(dataset: &Dataset, rewrites: Rewrites) -> Graph {
    let options = Options {
        rewrites: Some(rewrites),
        ..Options::default()
    };
    dataset.clone().with_options(options).graph().unwrap()
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn row_groups_are_the_files_rows(
        rows in any_rows(),
        in_group in 1usize..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let bytes = written(&rows, in_group, EnabledStatistics::Chunk);
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut.index(bytes.len()) as u64).collect();
        cuts.extend([0, 1 << 40]);
        cuts.sort_unstable();
        cuts.dedup();
        let directory = files(&[bytes]);
        let path = directory.path().join("0000").display().to_string();
        let table = Table { nulls_as_default: true, ..Table::rows(Columns::all()) };
        let dataset = Dataset::files(&path).parquet(table.clone());
        let graph = dataset.graph().unwrap();
        prop_assert!(graph.reads_parts(0));
        let batches = Dataset::files(&path).parquet(Table { rows: Some(2), ..table }).graph().unwrap();
        prop_assert!(!batches.reads_parts(0), "batches must not be read in parts, because the parts would decide the rows of a batch");
        let whole: Vec<String> = drained(&mut open(&graph));
        let texts = |all: &[String]| all.iter().map(|one| one.split(" of ").next().unwrap().to_owned()).collect::<Vec<_>>();
        let parts = cuts.windows(2).map(|ends| FilePart { path: &path, range: Some(ends[0]..ends[1]) });
        let items = parts.map(|part| ListedItem::new(part.written())).collect();
        let plan = SplitPlan { sources: vec![SourcePlan::Listed { items }] };
        let opened = || {
            let context = ExecContext { plan: Some(plan.clone()), ..context() };
            Executor::open(&graph, context).unwrap()
        };
        let found = drained(&mut opened());
        prop_assert_eq!(texts(&found), texts(&whole));
        for passed in 0..=whole.len() {
            let mut first = opened();
            for _ in 0..passed {
                first.next().unwrap().unwrap();
            }
            let mut second = opened();
            second.restore(&first.save().unwrap()).unwrap();
            prop_assert_eq!(texts(&drained(&mut second)), texts(&whole[passed..]));
        }
    }

    #[test]
    fn unread_columns_change_nothing(
        rows in any_rows(),
        in_group in 1usize..4,
        has_statistics: bool,
        nulls_as_default: bool,
        skips: bool,
        at_once in prop::option::of(1u64..4),
        which in 0usize..4,
    ) {
        let statistics = if has_statistics { EnabledStatistics::Chunk } else { EnabledStatistics::None };
        let directory = files(&[written(&rows, in_group, statistics)]);
        let table = Table {
            rows: at_once,
            nulls_as_default,
            on_error: if skips { OnError::Skip } else { OnError::Raise },
            ..Table::rows(Columns::all())
        };
        let read = all(directory.path()).parquet(table);
        let dataset = match which {
            0 => read.select([("id", "a")]),
            1 => read.select([("text", "a"), ("id", "b")]),
            2 => read.map_expr(col("text") + "!"),
            _ => read.map_exprs([("a", col("id") + 1)]),
        };
        let plain = drained(&mut open(&switched(&dataset, Rewrites::OFF)));
        prop_assert_eq!(drained(&mut open(&switched(&dataset, Rewrites::default()))), plain);
    }
}

#[test]
fn columns_with_possible_errors_are_read() {
    let row = |id| Row {
        id,
        text: Some("t".to_owned()),
        list: vec![1],
    };
    let spoilt = |statistics, rows: &[Row]| {
        // Damages the column "text". Only a reader of that column may notice the damage.
        let mut bytes = written(rows, 8, statistics);
        let at = bytes
            .windows(5)
            .position(|window| window == b"\x01\x00\x00\x00t")
            .unwrap();
        bytes[at] = 0xff;
        let directory = files(&[bytes]);
        let dataset = all(directory.path())
            .parquet(Table::rows(Columns::all()))
            .select([("id", "id")]);
        drained(&mut open(&dataset.graph().unwrap()))
    };
    let rows = [row(Some(1))];
    let unread = spoilt(EnabledStatistics::Chunk, &rows);
    assert!(unread[0].starts_with("1 of"), "{unread:?}");
    let read = spoilt(EnabledStatistics::None, &rows);
    assert!(read[0].contains("corrupt"), "{read:?}");
}
