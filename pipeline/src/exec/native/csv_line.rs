//! The call of `decode_csv`, which parses the columns of lines.

use bytes::Bytes;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use millstream_element::{Dtype, ElementSpec};

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expr::number_of;
use crate::exec::value::{Dims, Tensor, Value};
use crate::graph::{CsvField, DecodeCsv, column_of};

use super::made;

const OP: &str = "decode_csv";

pub(crate) struct CsvCall {
    component: usize,
    decode: DecodeCsv,
}

/// The values of a column.
#[derive(Default)]
struct Column {
    fixed: Vec<u8>,
    strings: Vec<Bytes>,
}

impl CsvCall {
    pub(crate) fn new(decode: &DecodeCsv, input: &ElementSpec) -> Result<CsvCall, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, OP, reason);
        Ok(CsvCall {
            component: column_of(&decode.component, input).map_err(refused)?,
            decode: decode.clone(),
        })
    }

    fn reader(&self) -> Reader {
        ReaderBuilder::new()
            .delimiter(self.decode.delimiter)
            .quoting(self.decode.quoted)
            .build()
    }

    /// Adds the values of `line` to the columns.
    fn add(&self, line: &[u8], columns: &mut [Column]) -> Result<(), String> {
        let wanted = self.decode.columns.len();
        let mut text = vec![0; line.len() + 1];
        // There is one place more than there should be values, so that excess values are noticed.
        let mut ends = vec![0; wanted + 1];
        let found = fields(&mut self.reader(), line, &mut text, &mut ends)?;
        if found != wanted {
            let more = if found > wanted { " or more" } else { "" };
            return Err(format!("expected {wanted} values, found {found}{more}"));
        }
        let mut start = 0;
        let mut columns = columns.iter_mut();
        for (index, field) in self.decode.columns.iter().enumerate() {
            let value = text.get(start..ends[index]).unwrap_or_default();
            start = ends[index];
            if field.skipped {
                continue;
            }
            let Some(column) = columns.next() else {
                return Err("a column is missing".to_owned());
            };
            let is_missing = value.is_empty() || value == self.decode.missing.as_bytes();
            let added = if is_missing {
                column.add_default(field)
            } else {
                column.add(field.dtype.0, value)
            };
            added.map_err(|reason| format!("column {:?}: {reason}", field.name))?;
        }
        Ok(())
    }
}

/// Reads the values of `line` into `text`, writes the end of each value to `ends`, and returns the number of
/// values.
fn fields(reader: &mut Reader, line: &[u8], text: &mut [u8], ends: &mut [usize]) -> Result<usize, String> {
    let (mut read, mut written, mut found) = (0, 0, 0);
    loop {
        let (result, taken, bytes, fields) =
            reader.read_record(&line[read..], &mut text[written..], &mut ends[found..]);
        read += taken;
        written += bytes;
        found += fields;
        match result {
            // The end of the line also ends the record. A further call of the reader, without input, reports
            // the end.
            ReadRecordResult::InputEmpty if read < line.len() || taken > 0 => {}
            ReadRecordResult::OutputEndsFull => return Ok(found),
            ReadRecordResult::Record if line[read..].iter().any(|byte| !matches!(byte, b'\r' | b'\n')) => {
                return Err("expected one line, found more than one line".to_owned());
            }
            ReadRecordResult::Record | ReadRecordResult::End | ReadRecordResult::InputEmpty => {
                return Ok(found);
            }
            ReadRecordResult::OutputFull => return Err("the line has more text than bytes".to_owned()),
        }
    }
}

impl Column {
    fn add(&mut self, dtype: Dtype, value: &[u8]) -> Result<(), String> {
        let shown = || String::from_utf8_lossy(&value[..value.len().min(32)]).into_owned();
        match dtype.item_bytes() {
            None => {
                if dtype == Dtype::String && std::str::from_utf8(value).is_err() {
                    return Err(format!("{:?} is not UTF-8: declare it as bytes", shown()));
                }
                self.strings.push(Bytes::copy_from_slice(value));
            }
            Some(size) => {
                let mut item = [0; 16];
                let into = &mut item[..size];
                std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| number_of(text.trim(), dtype, into))
                    .ok_or_else(|| format!("expected a number of {dtype}, found {:?}", shown()))?;
                self.fixed.extend_from_slice(into);
            }
        }
        Ok(())
    }

    fn add_default(&mut self, field: &CsvField) -> Result<(), String> {
        let is_text = field.dtype.0.item_bytes().is_none();
        match &field.default {
            Some(default) if is_text => {
                let item = default.items.first().map_or(&[][..], |item| item.as_slice());
                self.strings.push(Bytes::copy_from_slice(item));
            }
            Some(default) => self.fixed.extend_from_slice(&default.fixed),
            None if is_text => self.strings.push(Bytes::new()),
            None => return Err("the value is missing, and the column has no default".to_owned()),
        }
        Ok(())
    }
}

impl Call for CsvCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let failed = |reason: String| ExecError::new(ErrorKind::Value, OP, reason);
        let tensor = made::taken(OP, &mut value, self.component)?;
        let kept = self.decode.columns.iter().filter(|column| !column.skipped);
        let mut columns: Vec<Column> = kept.clone().map(|_| Column::default()).collect();
        for (index, line) in made::items(&tensor).iter().enumerate() {
            self.add(line, &mut columns)
                .map_err(|reason| failed(format!("line {index} of the element: {reason}")))?;
        }
        for (field, column) in kept.zip(columns) {
            let dtype = field.dtype.0;
            let dims = Dims::from_slice(tensor.dims());
            let made = if dtype.item_bytes().is_none() {
                Tensor::strings(dtype, &dims, column.strings)
            } else {
                made::fixed(dtype, dims, column.fixed)
            };
            value.push(made.map_err(failed)?);
        }
        Ok(Some(value))
    }
}
