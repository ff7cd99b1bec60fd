//! `arrow`: the batches of Arrow IPC files and streams.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MessageHeader;
use arrow_ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::Schema;

use crate::exec::format::reader::{Fault, Opened};

use super::messages::{Head, Messages};
use super::rows::{Batches, TableFile};

pub(in crate::exec::format) struct Arrow;

/// A file whose batches are read.
struct Decoding {
    messages: Messages,
    decoder: FileDecoder,
    /// Rows that are passed over.
    before: u64,
}

impl TableFile for Arrow {
    fn schema(&self, file: &Opened) -> Result<Arc<Schema>, Fault> {
        Ok(opened(file)?.1)
    }

    fn batches(&self, file: Opened, columns: &[usize], first: u64, _: usize) -> Result<Batches, Fault> {
        let (messages, schema, head) = opened(&file)?;
        let decoder = FileDecoder::new(schema, head.message()?.version());
        let mut places = columns.to_vec();
        // The decoder keeps the order of the file.
        places.sort_unstable();
        let mut decoding = Decoding {
            messages,
            decoder: decoder.with_projection(places),
            before: first,
        };
        // Behind the end of the messages lies what is none.
        Ok(Box::new(
            std::iter::from_fn(move || decoding.next().transpose()).fuse(),
        ))
    }
}

/// The messages of a file behind the first, which is its schema.
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
                    // It has more rows than are passed over.
                    let before = std::mem::take(&mut self.before) as usize;
                    return Ok(Some(batch.slice(before, batch.num_rows().saturating_sub(before))));
                }
                kind => {
                    return Err(Fault::from(format!(
                        "the file has a message of kind {kind:?}, which is not read"
                    )));
                }
            }
        }
        Ok(None)
    }
}
