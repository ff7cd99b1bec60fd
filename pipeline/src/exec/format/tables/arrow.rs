//! The format `arrow`: the batches of Arrow IPC files and streams.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MessageHeader;
use arrow_ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::Schema;

use crate::exec::format::reader::{Fault, Opened};

use super::messages::{Head, Messages};
use super::rows::{Batches, Table, TableFile, WantedRows};

pub(crate) struct Arrow;

/// A file whose batches are being read.
struct Decoding {
    messages: Messages,
    decoder: FileDecoder,
    /// The number of rows that are skipped before the next batch.
    before: u64,
}

/// A file whose schema has been read.
struct ArrowTable {
    messages: Messages,
    schema: Arc<Schema>,
    head: Head,
}

impl TableFile for Arrow {
    fn open(&self, file: &Opened) -> Result<Box<dyn Table>, Fault> {
        let (messages, schema, head) = opened(file)?;
        Ok(Box::new(ArrowTable {
            messages,
            schema,
            head,
        }))
    }
}

impl Table for ArrowTable {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn has_no_nulls(&self, _: usize) -> bool {
        // Only the messages of the file state whether a column has nulls.
        false
    }

    fn batches(self: Box<Self>, wanted: &WantedRows) -> Result<(Batches, u64), Fault> {
        let decoder = FileDecoder::new(self.schema, self.head.message()?.version());
        let mut places = wanted.columns.clone();
        // The decoder keeps the order of the columns in the file.
        places.sort_unstable();
        let mut decoding = Decoding {
            messages: self.messages,
            decoder: decoder.with_projection(places),
            before: wanted.first,
        };
        // `fuse` ends the iteration at the first `None`, because the bytes after the last message are not a
        // message.
        let batches = std::iter::from_fn(move || decoding.next().transpose()).fuse();
        Ok((Box::new(batches), 0))
    }
}

/// Returns the messages of a file after the schema message, the schema, and the head of the schema message.
fn opened(file: &Opened) -> Result<(Messages, Arc<Schema>, Head), Fault> {
    let mut messages = Messages::new(file.file.clone())?;
    let head = messages
        .head()?
        .ok_or_else(|| Fault::from("the file has no schema"))?;
    messages.pass_over(&head)?;
    let schema = try_schema_from_flatbuffer_bytes(head.described())?;
    Ok((messages, Arc::new(schema), head))
}

impl Decoding {
    fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        while let Some(head) = self.messages.head()? {
            match head.kind()? {
                MessageHeader::DictionaryBatch => {
                    let (block, message) = self.messages.body(head)?;
                    self.decoder.read_dictionary(&block, &message)?;
                }
                MessageHeader::RecordBatch => {
                    let rows = head.rows()?;
                    if self.before >= rows {
                        self.before -= rows;
                        self.messages.pass_over(&head)?;
                        continue;
                    }
                    let (block, message) = self.messages.body(head)?;
                    let batch = self.decoder.read_record_batch(&block, &message)?;
                    let Some(batch) = batch else { continue };
                    // The batch has more rows than are skipped.
                    let before = std::mem::take(&mut self.before) as usize;
                    return Ok(Some(batch.slice(before, batch.num_rows().saturating_sub(before))));
                }
                kind => {
                    return Err(Fault::from(format!("unsupported message of kind {kind:?}")));
                }
            }
        }
        Ok(None)
    }
}
