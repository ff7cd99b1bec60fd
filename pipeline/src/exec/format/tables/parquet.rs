//! `parquet`: the row groups of a file, of which only the columns that are wanted are read.

use std::io::{BufReader, Seek, SeekFrom};
use std::sync::Arc;

use arrow_schema::{ArrowError, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::exec::format::reader::{BUFFER_BYTES, Fault, Opened};
use crate::storage::Object;

use super::rows::{Batches, TableFile};

pub(in crate::exec::format) struct Parquet;

/// A file as the decoder reads it.
struct Chunks(Object);

impl TableFile for Parquet {
    fn schema(&self, file: &Opened) -> Result<Arc<Schema>, Fault> {
        let metadata = ArrowReaderMetadata::load(&Chunks(file.file.clone()), ArrowReaderOptions::new())?;
        Ok(Arc::clone(metadata.schema()))
    }

    fn batches(&self, file: Opened, columns: &[usize], first: u64, rows: usize) -> Result<Batches, Fault> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(Chunks(file.file))?;
        // Row groups in front of the first row are not read.
        let mut before = first;
        let mut groups = Vec::new();
        for (index, group) in builder.metadata().row_groups().iter().enumerate() {
            let count = u64::try_from(group.num_rows()).map_err(|_| {
                Fault::from(format!(
                    "the file is corrupt: row group {index} has a negative number of rows"
                ))
            })?;
            if groups.is_empty() && before >= count {
                before -= count;
            } else {
                groups.push(index);
            }
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let builder = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(rows);
        let reader = builder
            .with_offset(usize::try_from(before).unwrap_or(usize::MAX))
            .build()?;
        Ok(Box::new(reader.map(|batch| batch.map_err(Fault::from))))
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<Object>;

    fn get_read(&self, start: u64) -> Result<BufReader<Object>, ParquetError> {
        let mut file = self.0.clone();
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // No more than the file has, whatever its footer says.
        if start
            .checked_add(length as u64)
            .is_none_or(|end| end > self.0.len())
        {
            let reason = format!("{length} bytes at {start} are beyond the end of the file");
            return Err(ParquetError::EOF(reason));
        }
        let mut bytes = vec![0; length];
        self.0.read_exact_at(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Fault {
        if let ParquetError::External(inner) = error {
            return match inner.downcast::<std::io::Error>() {
                Ok(error) => Fault::from(*error),
                Err(error) => Fault::from(ArrowError::ExternalError(error)),
            };
        }
        Fault::from(format!("the file is corrupt or cut off, or no Parquet: {error}"))
    }
}
