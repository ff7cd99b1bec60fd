//! The rows of a table, one by one or in batches: the reader that Parquet and Arrow share. A failure or panic
//! of a decoder counts as an error of the file.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use millstream_element::ElementSpec;

use crate::exec::error::{ErrorKind, Origin};
use crate::exec::format::columns::{names_of, wanted};
use crate::exec::format::reader::{
    BUFFER_BYTES, Fault, FileReader, OpenFile, Opened, ReadError, Record, Start,
};
use crate::exec::value::Value;
use crate::graph;
use crate::storage::blame;

use super::convert::Converted;
use super::shape::{Shape, element};

/// Number of rows that are decoded at once if elements are single rows.
const ROWS_AT_ONCE: usize = 1024;

/// The way in which the tables of a format are opened.
pub(crate) trait TableFile: Send {
    /// Opens the table in a file.
    fn open(&self, file: &Opened) -> Result<Box<dyn Table>, Fault>;
}

/// An open table.
pub(crate) trait Table {
    /// Returns the schema of the columns.
    fn schema(&self) -> Arc<Schema>;

    /// Returns whether the column certainly has no nulls, as far as is known without reading it.
    fn has_no_nulls(&self, column: usize) -> bool;

    /// Returns the batches of the wanted rows, and the number of the first row of the part.
    fn batches(self: Box<Self>, wanted: &WantedRows) -> Result<(Batches, u64), Fault>;
}

/// The rows of a table that are wanted.
pub(crate) struct WantedRows {
    /// The indices of the wanted columns.
    pub(crate) columns: Vec<usize>,
    /// The byte range of the wanted part: only row groups that begin within the range are read. Formats
    /// without row groups ignore the range.
    pub(crate) part: Range<u64>,
    /// The number of rows that are skipped at the start of the part.
    pub(crate) first: u64,
    /// The approximate number of rows in a batch.
    pub(crate) rows: usize,
}

/// The batches of a file, in order.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Fault>> + Send>;

/// A factory of readers for the tables of one format.
pub(crate) struct Tables<F> {
    pub(crate) format: F,
    pub(crate) params: graph::Table,
    pub(crate) spec: ElementSpec,
}

struct TableReader {
    path: Arc<str>,
    batches: Batches,
    columns: Vec<Column>,
    params: graph::Table,
    spec: ElementSpec,
    /// The rest of the last batch.
    batch: Option<RecordBatch>,
    converted: Option<Current>,
    /// The bytes of the latest batch.
    batch_bytes: usize,
    /// The number in the file of the first row of the part.
    first: u64,
    /// The number of rows of the part that were passed.
    passed: u64,
}

/// A column that becomes one or several components.
struct Column {
    name: String,
    shape: Shape,
    /// Whether the column is read. A column that no operation uses is not read, unless a null in the column
    /// would be an error.
    is_read: bool,
}

/// A batch whose rows are yielded one by one.
struct Current {
    tensors: Converted,
    next: usize,
    rows: usize,
    origin: Origin,
}

/// Returns the spec of the elements of files like `file`.
pub(crate) fn describe(
    format: &impl TableFile,
    file: &Opened,
    params: &graph::Table,
) -> Result<ElementSpec, Fault> {
    let schema = decoded(|| Ok(format.open(file)?.schema()))?;
    let columns = columns(&schema, &params.columns.names)?;
    Ok(element(&columns, params.rows.is_some())?)
}

impl<F: TableFile> OpenFile for Tables<F> {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let path = Arc::clone(&file.path);
        let failed = |fault: Fault| ReadError::file(Origin::new(&path, 0, "schema"), fault);
        let table = decoded(|| self.format.open(&file)).map_err(failed)?;
        let schema = table.schema();
        let columns =
            columns(&schema, &names_of(&self.spec)).map_err(|reason| failed(Fault::from(reason)))?;
        let found =
            element(&columns, self.params.rows.is_some()).map_err(|reason| failed(Fault::from(reason)))?;
        if !is_within(&found, &self.spec) {
            let reason = format!("expected elements of {}, found elements of {found}", self.spec);
            return Err(failed(Fault::from(reason)));
        }
        let mut places = Vec::new();
        let mut wanted = Vec::new();
        for (name, shape) in columns {
            let place = schema.index_of(&name);
            let place = place.map_err(|error| failed(Fault::from(error.to_string())))?;
            let is_read = self.params.is_looked_at(&name)
                || !(self.params.nulls_as_default || table.has_no_nulls(place));
            places.extend(is_read.then_some(place));
            wanted.push(Column { name, shape, is_read });
        }
        let rows = WantedRows {
            columns: places,
            part: start.begin..start.end.unwrap_or(u64::MAX),
            first: start.place,
            rows: self.params.rows.map_or(ROWS_AT_ONCE, |rows| rows as usize),
        };
        let (batches, first) = decoded(|| table.batches(&rows)).map_err(failed)?;
        Ok(Box::new(TableReader {
            path,
            batches,
            columns: wanted,
            params: self.params.clone(),
            spec: self.spec.clone(),
            batch: None,
            converted: None,
            batch_bytes: 0,
            first,
            passed: start.place,
        }))
    }
}

impl FileReader for TableReader {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        match self.params.rows {
            Some(rows) => self.several(rows as usize),
            None => self.one(),
        }
    }

    fn place(&self) -> u64 {
        self.passed
    }

    fn held_bytes(&self) -> usize {
        BUFFER_BYTES + self.batch_bytes
    }
}

impl TableReader {
    /// Returns the next row.
    fn one(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(current) = &mut self.converted
                && current.next < current.rows
            {
                let row = current.next;
                current.next += 1;
                self.passed += 1;
                let failed = |reason: String| {
                    let key = format!("row {}", self.first + self.passed - 1);
                    ReadError::record(Origin::new(&self.path, 0, key), reason)
                };
                if let Some((_, column)) = current.tensors.null_rows.iter().find(|(null, _)| *null == row) {
                    return Err(failed(null_in(column)));
                }
                let mut value = Value::with_capacity(self.spec.components().len());
                for column in &current.tensors.columns {
                    column.row(row, &mut value).map_err(failed)?;
                }
                let origin = current.origin.clone();
                return Ok(Some(Record { value, origin }));
            }
            let Some(batch) = self.next_batch()? else {
                return Ok(None);
            };
            let origin = self.rows_origin(batch.num_rows());
            let tensors = self
                .convert(&batch)
                .map_err(|reason| ReadError::file(origin.clone(), reason))?;
            self.converted = Some(Current {
                tensors,
                next: 0,
                rows: batch.num_rows(),
                origin,
            });
        }
    }

    /// Returns the next `wanted` rows, or fewer rows at the end.
    fn several(&mut self, wanted: usize) -> Result<Option<Record>, ReadError> {
        let mut parts: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        while rows < wanted {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.next_batch()? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let taken = batch.num_rows().min(wanted - rows);
            if taken < batch.num_rows() {
                self.batch = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            rows += taken;
            parts.push(batch.slice(0, taken));
        }
        let origin = self.rows_origin(rows);
        let batch = match &parts[..] {
            [] => return Ok(None),
            [only] => only.clone(),
            [first, ..] => arrow_select::concat::concat_batches(&first.schema(), &parts)
                .map_err(|error| ReadError::file(origin.clone(), error.to_string()))?,
        };
        self.passed += rows as u64;
        let tensors = self
            .convert(&batch)
            .map_err(|reason| ReadError::file(origin.clone(), reason))?;
        if let Some((row, column)) = tensors.null_rows.first() {
            let reason = format!(
                "in row {} {}",
                self.first + self.passed - rows as u64 + *row as u64,
                null_in(column)
            );
            return Err(ReadError::record(origin, reason));
        }
        let mut value = Value::with_capacity(self.spec.components().len());
        for column in tensors.columns {
            let tensors = column.batch(&mut value);
            tensors.map_err(|reason| ReadError::file(origin.clone(), reason))?;
        }
        Ok(Some(Record { value, origin }))
    }

    /// Returns the next batch that has rows.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        loop {
            let batches = &mut self.batches;
            match decoded(|| batches.next().transpose()) {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(batch) => {
                    self.batch_bytes = batch.as_ref().map_or(0, RecordBatch::get_array_memory_size);
                    return Ok(batch);
                }
                Err(fault) => return Err(ReadError::file(self.rows_origin(1), fault)),
            }
        }
    }

    fn convert(&self, batch: &RecordBatch) -> Result<Converted, String> {
        let mut converted = Converted::default();
        for Column { name, shape, is_read } in &self.columns {
            if !is_read {
                converted.leave_out(shape)?;
                continue;
            }
            let column = batch.column_by_name(name);
            let column = column.ok_or_else(|| format!("a batch has no column {name:?}"))?;
            converted.add(name, column, shape, self.params.nulls_as_default)?;
        }
        Ok(converted)
    }

    /// Returns the origin of the next `rows` rows. The origin has no offset, because the bytes of a row are
    /// spread over the columns.
    fn rows_origin(&self, rows: usize) -> Origin {
        let next = self.first.saturating_add(self.passed);
        let last = next.saturating_add(rows.saturating_sub(1) as u64);
        let key = match rows {
            0 | 1 => format!("row {next}"),
            _ => format!("rows {next} to {last}"),
        };
        Origin::new(&self.path, 0, key)
    }
}

fn null_in(column: &str) -> String {
    format!("column {column:?} is null; read nulls as defaults, or fill them when the file is written")
}

/// Returns the columns with the names `names`, and the form in which each is read. If `names` is empty,
/// returns all columns.
fn columns(schema: &Schema, names: &[String]) -> Result<Vec<(String, Shape)>, String> {
    let there: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut columns = Vec::new();
    for name in wanted(names, &there)? {
        let field = schema.field_with_name(&name).map_err(|error| error.to_string())?;
        columns.push((name, Shape::of(field)?));
    }
    Ok(columns)
}

/// Returns whether everything that `found` describes is described by `declared`.
fn is_within(found: &ElementSpec, declared: &ElementSpec) -> bool {
    let mut pairs = found.components().iter().zip(declared.components());
    found.structure() == declared.structure()
        && pairs.all(|(found, declared)| {
            found.dtype() == declared.dtype()
                && match (found.dims(), declared.dims()) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(found), Some(declared)) => {
                        found.len() == declared.len()
                            && found
                                .iter()
                                .zip(declared)
                                .all(|(found, declared)| declared.is_none() || found == declared)
                    }
                }
        })
}

/// Runs a decoder on a file, and turns its panics into errors.
fn decoded<T>(decode: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Fault::from("the file is corrupt: the decoder panicked")))
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Fault {
        if let ArrowError::IoError(_, error) = error {
            return Fault::from(error);
        }
        if let ArrowError::ExternalError(inner) = &error
            && let Some(inner) = inner.downcast_ref::<std::io::Error>()
        {
            return Fault {
                kind: blame(inner),
                reason: inner.to_string(),
            };
        }
        Fault {
            kind: ErrorKind::Data,
            reason: format!("the file is corrupt or truncated: {error}"),
        }
    }
}
