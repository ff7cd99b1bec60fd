//! The format `csv`: the rows of CSV files. The crate `csv-core` finds the fields. The crate allocates no
//! memory, so this module can limit the size of a row.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, ReaderBuilder};
use millstream_element::Dtype;

use crate::exec::error::{Origin, Origins};
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, CSV_FIELDS_MAX};
use crate::record::Stream;

use super::parse::{scalar, shown};
use super::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};

/// Maximum bytes of the fields of a row. Without the limit, a quote that is never closed would make the rest
/// of a file one field.
const ROW_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Csv(pub(crate) graph::Csv);

struct CsvFile {
    origins: Origins,
    rows: Rows,
    columns: Vec<Column>,
    missing: Option<Vec<u8>>,
    /// The number of fields of a row, if it is known.
    width: Option<usize>,
    passed: u64,
}

struct Column {
    name: String,
    dtype: Dtype,
    field: usize,
    default: Option<Tensor>,
}

impl OpenFile for Csv {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, file } = file;
        let stream = Stream::new(file, self.0.compression, 0);
        let unopened = |error| ReadError::file(Origin::new(&path, 0, "row 1"), Fault::from(error));
        let mut rows = Rows::new(stream.map_err(unopened)?, &self.0);
        let (columns, width) = if self.0.header {
            let header = Origin::new(&path, 0, "header");
            match rows.next() {
                Ok(true) => self
                    .found(&rows)
                    .map_err(|reason| ReadError::file(header, reason))?,
                Ok(false) => return Err(ReadError::file(header, "the file has no header")),
                Err(reason) => return Err(ReadError::file(header, reason)),
            }
        } else {
            let fields = self.0.columns.iter().zip(0..);
            let fields = fields.map(|(column, place)| column.index.map_or(place, |index| index as usize));
            let in_order = self.0.columns.iter().all(|column| column.index.is_none());
            let columns = self.columns(fields).map_err(ReadError::unopened)?;
            (columns, in_order.then_some(self.0.columns.len()))
        };
        if start.place > rows.offset_bytes {
            rows.stream
                .pass_over(start.place - rows.offset_bytes)
                .map_err(unopened)?;
            rows = Rows {
                offset_bytes: start.place,
                ..Rows::new(rows.stream, &self.0)
            };
        }
        Ok(Box::new(CsvFile {
            origins: Origins::new(&path, "row"),
            rows,
            columns,
            missing: self.0.missing.clone().map(String::into_bytes),
            width,
            passed: start.passed,
        }))
    }
}

impl Csv {
    /// Returns the columns that the header names, and the number of fields in the header.
    fn found(&self, header: &Rows) -> Result<(Vec<Column>, Option<usize>), String> {
        let names: Vec<&[u8]> = (0..header.fields()).map(|field| header.field(field)).collect();
        let mut places = Vec::with_capacity(self.0.columns.len());
        for column in &self.0.columns {
            let named = || names.iter().position(|name| *name == column.name.as_bytes());
            let place = column.index.map(|index| index as usize).or_else(named);
            places.push(place.ok_or_else(|| {
                let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
                format!(
                    "the file has no column {:?}; its header is {:?}",
                    column.name,
                    shown(&names.join(","))
                )
            })?);
        }
        Ok((self.columns(places.into_iter())?, Some(names.len())))
    }

    fn columns(&self, fields: impl Iterator<Item = usize>) -> Result<Vec<Column>, String> {
        let columns = self.0.columns.iter().zip(fields).map(|(column, field)| {
            let default = column.default.as_ref();
            let default = default
                .map(|text| scalar(column.dtype.0, text.as_bytes()))
                .transpose();
            Ok(Column {
                name: column.name.clone(),
                dtype: column.dtype.0,
                field,
                default: default.map_err(|reason| format!("the default of {:?}: {reason}", column.name))?,
            })
        });
        columns.collect()
    }
}

impl FileReader for CsvFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let row = self.rows.next();
        let number = self.passed.saturating_add(1);
        let origin = self.origins.at(self.rows.begin_bytes, number);
        match row {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(reason) => return Err(ReadError::file(origin, reason)),
        }
        self.passed = self.passed.saturating_add(1);
        self.row(origin).map(Some)
    }

    fn place(&self) -> u64 {
        self.rows.offset_bytes
    }
}

impl CsvFile {
    fn row(&self, origin: Origin) -> Result<Record, ReadError> {
        if let Some(width) = self.width
            && width != self.rows.fields()
        {
            let reason = format!("expected {width} fields in the row, found {}", self.rows.fields());
            return Err(ReadError::record(origin, reason));
        }
        let mut value = Value::with_capacity(self.columns.len());
        for column in &self.columns {
            match self.tensor(column) {
                Ok(tensor) => value.push(tensor),
                Err(reason) => {
                    let reason = format!("column {:?} (field {}): {reason}", column.name, column.field);
                    return Err(ReadError::record(origin, reason));
                }
            }
        }
        Ok(Record { value, origin })
    }

    fn tensor(&self, column: &Column) -> Result<Tensor, String> {
        if column.field >= self.rows.fields() {
            return Err(format!("the row has only {} fields", self.rows.fields()));
        }
        let text = self.rows.field(column.field);
        if text.is_empty() || self.missing.as_deref() == Some(text) {
            let required = || "the value is missing, and the column has no default".to_owned();
            return column.default.clone().ok_or_else(required);
        }
        scalar(column.dtype, text)
    }
}

/// A reader of the rows of a stream, one row at a time.
struct Rows {
    stream: Stream,
    core: csv_core::Reader,
    quoting: bool,
    /// The bytes of the fields of the last row, and the place at which each field ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The number of fields of the last row.
    count: usize,
    /// The start of the last row.
    begin_bytes: u64,
    /// The start of the next row.
    offset_bytes: u64,
}

impl Rows {
    fn new(stream: Stream, csv: &graph::Csv) -> Rows {
        let core = ReaderBuilder::new()
            .delimiter(csv.delimiter)
            .quoting(csv.quoting)
            .build();
        Rows {
            stream,
            core,
            quoting: csv.quoting,
            text: vec![0; 4096],
            ends: vec![0; 64],
            count: 0,
            begin_bytes: 0,
            offset_bytes: 0,
        }
    }

    fn fields(&self) -> usize {
        self.count
    }

    fn field(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[index]]
    }

    /// Reads the next row. Returns `false` at the end of the file.
    fn next(&mut self) -> Result<bool, Fault> {
        self.pass_empty_lines()?;
        self.begin_bytes = self.offset_bytes;
        self.count = 0;
        let (mut text, mut ends, mut quotes) = (0, 0, 0usize);
        loop {
            let input = self.stream.fill_buf()?;
            let at_end = input.is_empty();
            let (result, read, wrote, ended) =
                self.core
                    .read_record(input, &mut self.text[text..], &mut self.ends[ends..]);
            quotes += input[..read].iter().filter(|byte| **byte == b'"').count();
            self.stream.consume(read);
            self.offset_bytes = self.offset_bytes.saturating_add(read as u64);
            (text, ends) = (text + wrote, ends + ended);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => grow(&mut self.text, ROW_BYTES_MAX, "bytes")?,
                ReadRecordResult::OutputEndsFull => grow(&mut self.ends, CSV_FIELDS_MAX as usize, "fields")?,
                ReadRecordResult::Record if at_end && self.quoting && quotes % 2 == 1 => {
                    return Err(Fault::from(
                        "the file is truncated: expected a closing quote before the end",
                    ));
                }
                ReadRecordResult::Record => {
                    self.count = ends;
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    /// Skips the line ends in front of a row, so that the start of the row is exact.
    fn pass_empty_lines(&mut self) -> io::Result<()> {
        loop {
            let input = self.stream.fill_buf()?;
            let empty = input
                .iter()
                .take_while(|byte| matches!(byte, b'\n' | b'\r'))
                .count();
            let is_all = empty > 0 && empty == input.len();
            self.stream.consume(empty);
            self.offset_bytes = self.offset_bytes.saturating_add(empty as u64);
            if !is_all {
                return Ok(());
            }
        }
    }
}

fn grow<T: Copy + Default>(buffer: &mut Vec<T>, limit: usize, what: &str) -> Result<(), String> {
    if buffer.len() >= limit {
        return Err(format!(
            "a row has more than {limit} {what}: look for an unclosed quote, or for a file that is not CSV"
        ));
    }
    buffer.resize((buffer.len() * 2).min(limit), T::default());
    Ok(())
}
