//! The format `sqlite`: the rows of a query. SQLite's statements borrow their connection and block. A thread
//! of the reader therefore runs the query, and prefetches a bounded number of rows and bytes. The thread ends
//! with the reader, and with the task.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use millstream_element::Dtype;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, InterruptHandle, OpenFlags, Row};

use crate::exec::cancel::{Cancel, CancelHook};
use crate::exec::error::{ErrorKind, Origin, Origins};
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, SqlColumn};

use super::parse::{inline, integer, nothing, scalar, shown};
use super::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};
use super::room::Room;

/// Maximum number of rows that the query is ahead of the reader.
const AHEAD_ROWS: usize = 64;
/// Maximum bytes of the rows that the query is ahead. A single row with a column of a gigabyte is still read.
const AHEAD_BYTES: usize = 4 << 20;

pub(crate) struct Sqlite {
    pub(crate) params: graph::Sqlite,
    pub(crate) cancel: Cancel,
}

struct SqliteFile {
    origins: Origins,
    passed: u64,
    /// The channel of answers, or `None` while the reader is being dropped.
    rows: Option<Receiver<Answer>>,
    room: Arc<Room>,
    thread: Option<JoinHandle<()>>,
    interrupt: Arc<InterruptHandle>,
    _hook: CancelHook,
}

/// An answer of the thread that runs the query.
enum Answer {
    Row(Value, usize),
    /// A row that cannot be read.
    Refused(String),
    /// A query that failed, or that cannot be run.
    Failed(Fault),
    End,
}

impl OpenFile for Sqlite {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let path = file.path;
        let failed = |fault: Fault| ReadError::file(Origin::new(&path, 0, "query"), fault);
        if file.file.local_file().is_none() {
            return Err(failed(Fault {
                kind: ErrorKind::Caller,
                reason: "a database is read in place, so it must be a file of this machine: copy it first"
                    .to_owned(),
            }));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&*path, flags).map_err(|error| failed(fault(&error)))?;
        distrust(&connection).map_err(|error| failed(fault(&error)))?;
        let interrupt = Arc::new(connection.get_interrupt_handle());
        let stop = Arc::clone(&interrupt);
        let hook = self.cancel.on_cancel(move || stop.interrupt());
        let (sender, rows) = bounded(AHEAD_ROWS);
        let params = self.params.clone();
        let room = Arc::new(Room::new(AHEAD_BYTES));
        let taken = Arc::clone(&room);
        let thread = std::thread::Builder::new()
            .name("millstream-sqlite".to_owned())
            .spawn(move || {
                let answer = match run(&connection, &params, start.passed, (&sender, &taken)) {
                    Ok(()) => Answer::End,
                    Err(fault) => Answer::Failed(fault),
                };
                // If sending fails, the reader is dropped and nobody needs the answer.
                let _ = sender.send(answer);
            });
        let thread = thread.map_err(|error| {
            failed(Fault {
                kind: ErrorKind::Resource,
                reason: format!("cannot start a thread: {error}"),
            })
        })?;
        Ok(Box::new(SqliteFile {
            origins: Origins::new(&path, "row"),
            passed: start.passed,
            rows: Some(rows),
            room,
            thread: Some(thread),
            interrupt,
            _hook: hook,
        }))
    }
}

/// Restricts the query to this file. Views and triggers of a hostile file cannot call functions with side
/// effects, and neither they nor the query can attach other files.
fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    Ok(())
}

impl FileReader for SqliteFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let origin = self.origins.at(0, self.passed.saturating_add(1));
        self.passed = self.passed.saturating_add(1);
        match self.rows.as_ref().and_then(|rows| rows.recv().ok()) {
            Some(Answer::Row(value, bytes)) => {
                self.room.give_back(bytes);
                Ok(Some(Record { value, origin }))
            }
            Some(Answer::Refused(reason)) => Err(ReadError::record(origin, reason)),
            Some(Answer::Failed(fault)) => Err(ReadError::file(origin, fault)),
            Some(Answer::End) => Ok(None),
            None => Err(ReadError::file(
                origin,
                Fault {
                    kind: ErrorKind::Internal,
                    reason: "the thread that ran the query has ended".to_owned(),
                },
            )),
        }
    }

    fn place(&self) -> u64 {
        0
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        // Closing the channel and the room ends a thread that sends a row or waits for room.
        drop(self.rows.take());
        self.room.close();
        self.interrupt.interrupt();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends the rows of the query after the first `before` rows.
fn run(
    connection: &Connection,
    params: &graph::Sqlite,
    before: u64,
    (rows, room): (&Sender<Answer>, &Room),
) -> Result<(), Fault> {
    let of_caller = |reason: String| Fault {
        kind: ErrorKind::Caller,
        reason,
    };
    let mut statement = connection.prepare(&params.query).map_err(|error| fault(&error))?;
    if !statement.readonly() {
        return Err(of_caller(
            "expected a query that only reads the database".to_owned(),
        ));
    }
    if statement.column_count() != params.columns.len() {
        return Err(of_caller(format!(
            "found {} columns in the query, expected the {} columns of the dataset",
            statement.column_count(),
            params.columns.len()
        )));
    }
    let mut found = statement.query([]).map_err(|error| fault(&error))?;
    let mut passed = 0;
    while let Some(row) = found.next().map_err(|error| fault(&error))? {
        passed += 1;
        if passed <= before {
            continue;
        }
        let answer = match value(row, &params.columns) {
            Ok(value) => {
                let bytes = value.iter().map(Tensor::held_bytes).sum();
                if !room.take(bytes) {
                    return Ok(());
                }
                Answer::Row(value, bytes)
            }
            Err(reason) => Answer::Refused(reason),
        };
        if rows.send(answer).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn value(row: &Row<'_>, columns: &[SqlColumn]) -> Result<Value, String> {
    let mut value = Value::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let field = row.get_ref(index).map_err(|error| error.to_string());
        let tensor = field.and_then(|field| tensor(field, column));
        value.push(tensor.map_err(|reason| format!("column {:?}: {reason}", column.name))?);
    }
    Ok(value)
}

fn tensor(field: ValueRef<'_>, column: &SqlColumn) -> Result<Tensor, String> {
    let dtype = column.dtype.0;
    match (field, dtype) {
        (ValueRef::Null, _) if column.null_as_default => nothing(dtype),
        (ValueRef::Null, _) => Err("the value is null: read nulls of the column as defaults".to_owned()),
        (ValueRef::Integer(value), Dtype::F32) => inline(dtype, &(value as f32).to_le_bytes()),
        (ValueRef::Integer(value), Dtype::F64) => inline(dtype, &(value as f64).to_le_bytes()),
        (ValueRef::Real(value), Dtype::F32) => inline(dtype, &(value as f32).to_le_bytes()),
        (ValueRef::Real(value), Dtype::F64) => inline(dtype, &value.to_le_bytes()),
        (ValueRef::Integer(value), _) => {
            let bytes =
                integer(dtype, value.into()).ok_or_else(|| format!("expected {dtype}, found {value}"))?;
            inline(dtype, &bytes)
        }
        (ValueRef::Text(text), Dtype::String | Dtype::Bytes) => scalar(dtype, text),
        (ValueRef::Blob(bytes), Dtype::Bytes) => scalar(dtype, bytes),
        (ValueRef::Real(value), _) => Err(format!("expected {dtype}, found {value}")),
        (ValueRef::Text(text), _) => Err(format!(
            "expected {dtype}, found {:?}",
            shown(&String::from_utf8_lossy(text))
        )),
        (ValueRef::Blob(_), _) => Err(format!("expected {dtype}, found a blob")),
    }
}

/// Blames the author of an invalid query, or else the database.
fn fault(error: &rusqlite::Error) -> Fault {
    use rusqlite::ErrorCode::{OperationInterrupted, Unknown};
    let kind = match error.sqlite_error_code() {
        Some(OperationInterrupted) => ErrorKind::Cancelled,
        // SQLite's code for a query that cannot be compiled has no name of its own.
        Some(Unknown) | None => ErrorKind::Caller,
        Some(_) => ErrorKind::Data,
    };
    Fault {
        kind,
        reason: format!("the query failed: {error}"),
    }
}
