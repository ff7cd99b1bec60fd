//! Tests of the rows of SQLite queries.

use millstream_element::Dtype;
use millstream_pipeline::exec::ErrorKind;
use millstream_pipeline::graph::{Dataset, OnError, SqlColumn, Sqlite};
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::files::{Flat, damaged, elements, failure, survives};
use crate::support::open;

type Row = (i64, Option<f64>, String, Vec<u8>);

fn database(rows: &[Row]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(directory.path().join("a.db")).unwrap();
    connection
        .execute_batch("create table t (n integer, x real, s text, b blob)")
        .unwrap();
    for (n, x, s, b) in rows {
        connection
            .execute("insert into t values (?, ?, ?, ?)", rusqlite::params![n, x, s, b])
            .unwrap();
    }
    directory
}

fn read(directory: &TempDir, sqlite: Sqlite) -> Dataset {
    Dataset::files(format!("{}/*", directory.path().display())).sqlite(sqlite)
}

fn columns() -> [SqlColumn; 4] {
    [
        SqlColumn::required("n", Dtype::I64),
        SqlColumn::nullable("x", Dtype::F64),
        SqlColumn::required("s", Dtype::String),
        SqlColumn::required("b", Dtype::Bytes),
    ]
}

fn everything() -> Sqlite {
    Sqlite::new("select n, x, s, b from t order by rowid", columns())
}

fn element((n, x, s, b): &Row) -> Vec<Flat> {
    let scalar = |dtype, bytes: &[u8]| (dtype, vec![], vec![bytes.to_vec()]);
    vec![
        scalar(Dtype::I64, &n.to_le_bytes()),
        scalar(Dtype::F64, &x.unwrap_or(0.0).to_le_bytes()),
        scalar(Dtype::String, s.as_bytes()),
        scalar(Dtype::Bytes, b),
    ]
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        any::<i64>(),
        prop::option::of(-1e9f64..1e9),
        "[a-z\u{e9}]{0,5}",
        prop::collection::vec(any::<u8>(), 0..5),
    );
    prop::collection::vec(row, 0..6)
}

proptest! {
    #![proptest_config(rounds(20))]

    #[test]
    fn sqlite_rows_are_read_from_every_position(rows in any_rows()) {
        let directory = database(&rows);
        let expected: Vec<_> = rows.iter().map(element).collect();
        prop_assert_eq!(elements(&read(&directory, everything()).graph().unwrap()), expected);
    }

    #[test]
    fn no_damage_does_harm(rows in any_rows(), at: prop::sample::Index, change: Option<u8>) {
        let directory = database(&rows);
        let path = directory.path().join("a.db");
        let whole = std::fs::read(&path).unwrap();
        // The first page describes the tables. Damage on other pages must not panic, but may yield
        // wrong rows.
        let at = 4096.min(whole.len()) + at.index(whole.len() - 4096.min(whole.len()));
        std::fs::write(&path, damaged(&whole, at, change)).unwrap();
        survives(read(&directory, everything()));
    }
}

#[test]
fn a_mistyped_value_is_named_or_omitted() {
    let directory = database(&[
        (1, None, "a".to_owned(), vec![]),
        (300, None, "b".to_owned(), vec![]),
        (2, Some(0.5), "c".to_owned(), vec![]),
    ]);
    let bytes = Sqlite::new(
        "select n from t order by rowid",
        [SqlColumn::required("n", Dtype::U8)],
    );
    let (before, message) = failure(read(&directory, bytes.clone()));
    assert_eq!(before, 1);
    assert!(
        message.contains("expected u8, found 300") && message.contains("key \"row 2\""),
        "{message}"
    );
    let skipping = Sqlite {
        on_error: OnError::Skip,
        ..bytes
    };
    let found = elements(&read(&directory, skipping).graph().unwrap());
    assert_eq!(found.len(), 2);
    let nulls = Sqlite::new(
        "select x from t order by rowid",
        [SqlColumn::required("x", Dtype::F32)],
    );
    assert!(failure(read(&directory, nulls)).1.contains("the value is null"));
}

#[test]
fn bad_queries_are_the_callers_fault() {
    let directory = database(&[(1, None, String::new(), vec![])]);
    let refused = |query: &str| {
        let sqlite = Sqlite::new(query, [SqlColumn::required("n", Dtype::I64)]);
        let error = open(&read(&directory, sqlite).graph().unwrap())
            .next()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Caller, "{error}");
        error.to_string()
    };
    assert!(refused("delete from t returning n").contains("only reads the database"));
    assert!(refused("select n, x from t").contains("found 2 columns in the query, expected the 1 columns"));
    assert!(refused("select absent from t").contains("no such column"));
    assert!(refused("attach database 'other' as n").contains("0 columns"));
    assert_eq!(
        elements(&read(&directory, everything()).graph().unwrap()).len(),
        1
    );
}

#[test]
fn dropping_a_reader_ends_an_endless_query() {
    let directory = database(&[]);
    let endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select n from c";
    let sqlite = Sqlite::new(endless, [SqlColumn::required("n", Dtype::I64)]);
    let graph = read(&directory, sqlite).take(3).graph().unwrap();
    assert_eq!(elements(&graph).len(), 3);
}

#[test]
fn a_non_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.db"), "no database".repeat(100)).unwrap();
    let (_, message) = failure(read(&directory, everything()));
    assert!(message.contains("not a database"), "{message}");
}
