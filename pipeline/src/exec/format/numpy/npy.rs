//! The format `npy`: the rows of an array, which are read in blocks. A row is a view of its block. The file
//! is not memory-mapped, because another process could truncate a mapped file.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use millstream_element::ElementSpec;

use crate::exec::error::{Origin, Origins};
use crate::exec::value::Value;
use crate::graph::{self, RECORD_BYTES_MAX};
use crate::storage::Object;

use super::header::Header;
use super::items::{in_order, read_bytes, tensor};
use crate::exec::format::reader::{Fault, FileReader, OpenFile, Opened, ReadError, Record, Start};

/// Number of bytes that are read at once, unless a row is larger.
const BLOCK_BYTES: u64 = 1 << 20;
/// Maximum number of rows in a block, because rows may be empty.
const BLOCK_ROWS_MAX: u64 = 1 << 16;

pub(crate) struct Npy {
    pub(crate) params: graph::Numpy,
    pub(crate) spec: ElementSpec,
}

struct NpyFile {
    origins: Origins,
    file: Object,
    header: Header,
    /// The shape of an element.
    dims: Vec<u64>,
    /// The number of bytes of an element, and the number of elements.
    row_bytes: u64,
    rows: u64,
    /// The index of the next row.
    next: u64,
    /// The bytes of the rows from `next` on that are read already.
    block: Bytes,
    in_block: u64,
}

/// Returns the spec of the elements of files like `file`.
pub(crate) fn describe(file: &mut Opened, params: &graph::Numpy) -> Result<ElementSpec, Fault> {
    let spec = Header::read(&mut file.file)?.spec(params.whole)?;
    ElementSpec::single(spec).map_err(|error| Fault::from(error.to_string()))
}

impl OpenFile for Npy {
    fn open(&self, mut file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let path = Arc::clone(&file.path);
        let failed = |fault: Fault| ReadError::file(Origin::new(&path, 0, "header"), fault);
        let refused = |reason: String| failed(Fault::from(reason));
        let header = Header::read(&mut file.file).map_err(failed)?;
        let whole = self.params.whole;
        let dims = header.dims(whole).map_err(refused)?.to_vec();
        let accepted = self
            .spec
            .components()
            .first()
            .is_some_and(|spec| spec.accepts(header.items.dtype(), &dims));
        if !accepted {
            let dtype = header.items.dtype();
            return Err(refused(format!(
                "expected elements of {}, found {dtype}{dims:?}",
                self.spec
            )));
        }
        let (file_bytes, needed) = (
            file.file.len(),
            header.header_bytes.saturating_add(header.data_bytes),
        );
        if file_bytes < needed {
            return Err(refused(format!(
                "the file is truncated: expected {needed} bytes, found {file_bytes}"
            )));
        }
        let rows = match header.shape.first() {
            Some(rows) if !whole => *rows,
            Some(_) | None => 1,
        };
        let row_bytes = dims
            .iter()
            .try_fold(header.items.bytes(), |bytes, dim| bytes.checked_mul(*dim));
        let Some(row_bytes) = row_bytes.filter(|bytes| *bytes <= RECORD_BYTES_MAX) else {
            return Err(refused(format!(
                "an element of the shape {dims:?} exceeds the limit of {RECORD_BYTES_MAX} bytes"
            )));
        };
        let next = start.place.min(rows);
        // The product cannot overflow: the bytes of the whole array have a valid length.
        let place = header.header_bytes + next * row_bytes;
        file.file
            .seek(SeekFrom::Start(place))
            .map_err(|error| failed(Fault::from(error)))?;
        Ok(Box::new(NpyFile {
            origins: Origins::new(&file.path, "row"),
            file: file.file,
            header,
            dims,
            row_bytes,
            rows,
            next,
            block: Bytes::new(),
            in_block: 0,
        }))
    }
}

impl FileReader for NpyFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.next == self.rows {
            return Ok(None);
        }
        let place = self.header.header_bytes + self.next * self.row_bytes;
        let origin = self.origins.at(place, self.next);
        if self.in_block == 0 {
            let fitting = BLOCK_BYTES.checked_div(self.row_bytes).unwrap_or(BLOCK_ROWS_MAX);
            let rows = fitting.clamp(1, BLOCK_ROWS_MAX).min(self.rows - self.next);
            let block = read_bytes(&mut self.file, rows * self.row_bytes);
            let block = block.map_err(|error| ReadError::file(origin.clone(), error))?;
            (self.block, self.in_block) = (in_order(&self.header, block), rows);
        }
        // The conversion keeps the value: a row has at most 1 GiB.
        let row = self.block.split_to(self.row_bytes as usize);
        (self.next, self.in_block) = (self.next + 1, self.in_block - 1);
        match tensor(&self.header, &self.dims, row) {
            Ok(tensor) => Ok(Some(Record {
                value: Value::from_buf([tensor]),
                origin,
            })),
            Err(reason) => Err(ReadError::record(origin, reason)),
        }
    }

    fn place(&self) -> u64 {
        self.next
    }
}
