//! The format `parquet`: the row groups of a file. Only the wanted columns are read.

use std::io::{self, Chain, Cursor, Read, Seek, SeekFrom, Take};
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{ArrowError, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;

use crate::exec::format::reader::{Fault, Opened};
use crate::storage::Object;

use super::gzip;
use super::rows::{Batches, Table, TableFile, WantedRows};
use super::thrift;

/// Bytes of the footer at the end of a file: the length of the metadata, and the magic number of Parquet.
const FOOTER_BYTES: usize = 8;
/// Bytes within which a page's header usually ends. A header is longer only if it repeats long values.
const HEADER_BYTES: u64 = 1 << 10;
/// Maximum bytes of a page's header beyond [`HEADER_BYTES`].
const HEADER_BYTES_MAX: u64 = 16 << 20;

pub(crate) struct Parquet;

/// A file in the form that the decoder reads.
struct Chunks {
    file: Object,
    /// The byte ranges of the columns that gzip compresses.
    gzip: Vec<Range<u64>>,
}

/// A reader of the header of a page. The reader reads no bytes before the first request: the decoder opens a
/// reader for each page, even if the decoder knows the header already.
struct PageHeader {
    file: Object,
    start: u64,
    begun: Option<Chain<Cursor<Vec<u8>>, Take<Object>>>,
}

/// A file whose index has been read.
struct ParquetTable {
    file: Object,
    index: ArrowReaderMetadata,
}

impl TableFile for Parquet {
    fn open(&self, file: &Opened) -> Result<Box<dyn Table>, Fault> {
        let file = file.file.clone();
        let index = index(&file)?;
        Ok(Box::new(ParquetTable { file, index }))
    }
}

impl Table for ParquetTable {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(self.index.schema())
    }

    /// Returns whether every chunk of the column states that it has no nulls. Most writers state the number
    /// of nulls.
    fn has_no_nulls(&self, column: usize) -> bool {
        let groups = self.index.metadata().row_groups().iter();
        let schema = self.index.parquet_schema();
        groups
            .flat_map(RowGroupMetaData::columns)
            .enumerate()
            .all(|(index, chunk)| {
                // Each row group has one chunk for each leaf of the schema, in the order of the schema.
                let leaf = index.checked_rem(schema.num_columns()).unwrap_or(0);
                schema.get_column_root_idx(leaf) != column
                    || schema.column(leaf).max_def_level() == 0
                    || chunk.statistics().and_then(Statistics::null_count_opt) == Some(0)
            })
    }

    fn batches(self: Box<Self>, wanted: &WantedRows) -> Result<(Batches, u64), Fault> {
        let chunks = Chunks::new(self.file, self.index.metadata());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.index);
        // Row groups before the first wanted row, and row groups of other parts, are not read.
        let (mut rows, mut first, mut before) = (0, None, wanted.first);
        let mut groups = Vec::new();
        for (index, group) in builder.metadata().row_groups().iter().enumerate() {
            let count = u64::try_from(group.num_rows()).map_err(|_| {
                Fault::from(format!(
                    "the file is corrupt: row group {index} has a negative number of rows"
                ))
            })?;
            let begin = group.columns().iter().map(|column| column.byte_range().0).min();
            if wanted.part.contains(&begin.unwrap_or(0)) {
                first.get_or_insert(rows);
                if groups.is_empty() && before >= count {
                    before -= count;
                } else {
                    groups.push(index);
                }
            }
            rows = count.saturating_add(rows);
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.columns.iter().copied());
        let mut builder = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(wanted.rows);
        // Any offset makes the decoder select rows one by one.
        if before > 0 {
            builder = builder.with_offset(usize::try_from(before).unwrap_or(usize::MAX));
        }
        let reader = builder.build()?;
        let batches = reader.map(|batch| batch.map_err(Fault::from));
        Ok((Box::new(batches), first.unwrap_or(0)))
    }
}

impl Chunks {
    fn new(file: Object, metadata: &ParquetMetaData) -> Chunks {
        let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
        let under_gzip = columns.filter(|column| matches!(column.compression(), Compression::GZIP(_)));
        let places = under_gzip.map(|column| {
            let (start, length) = column.byte_range();
            start..start.saturating_add(length)
        });
        let mut gzip: Vec<Range<u64>> = places.collect();
        gzip.sort_unstable_by_key(|place| place.start);
        Chunks { file, gzip }
    }

    /// Returns whether gzip compresses the data that begins at `start`.
    fn is_gzip(&self, start: u64) -> bool {
        let behind = self.gzip.partition_point(|place| place.start <= start);
        behind > 0 && self.gzip[behind - 1].contains(&start)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Chunks {
    type T = PageHeader;

    /// Returns a reader of a page's header. The decoder reads only headers in this way, because [`index`]
    /// reads the metadata.
    fn get_read(&self, start: u64) -> Result<PageHeader, ParquetError> {
        Ok(PageHeader {
            file: self.file.clone(),
            start,
            begun: None,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // The request is limited to the size of the file, whatever the footer states.
        if start
            .checked_add(length as u64)
            .is_none_or(|end| end > self.file.len())
        {
            let reason = format!("{length} bytes at {start} are beyond the end of the file");
            return Err(ParquetError::EOF(reason));
        }
        let bytes = self.file.read_vec_at(start, length)?;
        if self.is_gzip(start) {
            gzip::check(&bytes, thrift::PAGE_BYTES_MAX.unsigned_abs()).map_err(ParquetError::General)?;
        }
        Ok(bytes.into())
    }
}

impl PageHeader {
    /// Reads the first bytes of the header, and returns an error if the page is larger than the limit.
    fn begin(&mut self) -> io::Result<()> {
        let there = self.file.len().saturating_sub(self.start);
        // The conversion keeps the value: at most one kilobyte is read.
        let begun = self
            .file
            .read_vec_at(self.start, there.min(HEADER_BYTES) as usize)?;
        thrift::check_page(&begun).map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let mut rest = self.file.clone();
        rest.seek(SeekFrom::Start(self.start.saturating_add(begun.len() as u64)))?;
        self.begun = Some(Cursor::new(begun).chain(rest.take(HEADER_BYTES_MAX)));
        Ok(())
    }
}

impl Read for PageHeader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.begun.is_none() {
            self.begin()?;
        }
        match &mut self.begun {
            Some(begun) => begun.read(into),
            None => Ok(0),
        }
    }
}

/// Reads the index of columns and row groups at the end of the file.
fn index(file: &Object) -> Result<ArrowReaderMetadata, Fault> {
    let no_parquet =
        || Fault::from("invalid or truncated Parquet file: expected a Parquet footer at the end");
    let footer_at = file
        .len()
        .checked_sub(FOOTER_BYTES as u64)
        .ok_or_else(no_parquet)?;
    let footer = file.read_vec_at(footer_at, FOOTER_BYTES)?;
    let footer = FooterTail::try_from(&footer[..])?;
    let length = footer.metadata_length();
    let metadata_at = footer_at.checked_sub(length as u64).ok_or_else(no_parquet)?;
    if footer.is_encrypted_footer() {
        return Err(Fault::from(
            "the file is encrypted, and encrypted files are not supported",
        ));
    }
    // The file has this many bytes, so the allocation is bounded.
    let metadata = file.read_vec_at(metadata_at, length)?;
    thrift::check_schema(&metadata)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&metadata)?;
    Ok(ArrowReaderMetadata::try_new(
        Arc::new(metadata),
        ArrowReaderOptions::new(),
    )?)
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Fault {
        if let ParquetError::External(inner) = error {
            return match inner.downcast::<std::io::Error>() {
                Ok(error) => Fault::from(*error),
                Err(error) => Fault::from(ArrowError::ExternalError(error)),
            };
        }
        Fault::from(format!("invalid or truncated Parquet file: {error}"))
    }
}
