//! The messages of Arrow IPC files and streams, read from front to back. A file is a stream between a magic
//! number and an index; the index is not needed. A stated size is accepted only if the file has as many
//! bytes, and an uncompressed size only up to a limit.

use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow_buffer::Buffer;
use arrow_ipc::{Block, Message, MessageHeader, root_as_message};

use crate::exec::format::reader::{BUFFER_BYTES, Fault};
use crate::storage::Object;

const MAGIC: &[u8; 6] = b"ARROW1";
/// Maximum bytes to which writers pad the magic number.
const PADDED_BYTES_MAX: u64 = 64;
/// Maximum bytes of a message's metadata, which describes the body.
const METADATA_BYTES_MAX: u32 = 64 << 20;
/// Maximum uncompressed bytes of all buffers of a batch.
const BODY_BYTES_MAX: u64 = 4 << 30;

/// A reader of the messages of a file.
pub(crate) struct Messages {
    stream: BufReader<Object>,
    offset_bytes: u64,
    file_bytes: u64,
}

/// A message whose body has not been read.
pub(crate) struct Head {
    /// The metadata of the message, with the length prefix in front.
    metadata: Vec<u8>,
    body_bytes: u64,
}

impl Messages {
    pub(crate) fn new(mut file: Object) -> Result<Messages, Fault> {
        let file_bytes = file.len();
        let mut start = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.by_ref().take(PADDED_BYTES_MAX).read_to_end(&mut start)?;
        let mut offset_bytes = 0;
        if start.starts_with(MAGIC) {
            // The padding is zeros, and no message begins with zeros.
            let padding = start.chunks(8).skip(1).take_while(|word| **word == [0; 8]);
            offset_bytes = 8 + 8 * padding.count() as u64;
        }
        file.seek(SeekFrom::Start(offset_bytes))?;
        Ok(Messages {
            stream: BufReader::with_capacity(BUFFER_BYTES, file),
            offset_bytes,
            file_bytes,
        })
    }

    /// Returns the head of the next message, or `None` at the end. The caller must then call
    /// [`Messages::body`] or [`Messages::pass_over`].
    pub(crate) fn head(&mut self) -> Result<Option<Head>, Fault> {
        if self.offset_bytes == self.file_bytes {
            return Ok(None);
        }
        let mut prefix = [0; 8];
        // A stream may end without an end mark; a file has an end mark of eight bytes.
        self.read(&mut prefix[..4])?;
        let length = if prefix[..4] == [0xff; 4] {
            self.read(&mut prefix[4..])?;
            u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]])
        } else {
            u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]])
        };
        if length == 0 {
            return Ok(None);
        }
        if length > METADATA_BYTES_MAX || u64::from(length) > self.file_bytes - self.offset_bytes {
            return Err(Fault::from(format!(
                "invalid Arrow IPC file: the message of {length} bytes at byte {} is too large",
                self.offset_bytes
            )));
        }
        // The decoder expects the length prefix of current versions in front of the metadata.
        let mut metadata = vec![0; 8 + length as usize];
        metadata[..4].fill(0xff);
        metadata[4..8].copy_from_slice(&length.to_le_bytes());
        self.read(&mut metadata[8..])?;
        let body_bytes = message(&metadata)?.bodyLength();
        let body_bytes = u64::try_from(body_bytes).ok();
        let body_bytes = body_bytes.filter(|bytes| *bytes <= self.file_bytes - self.offset_bytes);
        let Some(body_bytes) = body_bytes else {
            return Err(Fault::from(format!(
                "the file is truncated or corrupt: it ends within the message at byte {}",
                self.offset_bytes
            )));
        };
        Ok(Some(Head { metadata, body_bytes }))
    }

    /// Returns the whole message in the form that the decoder expects.
    pub(crate) fn body(&mut self, head: Head) -> Result<(Block, Buffer), Fault> {
        let metadata_bytes = head.metadata.len();
        let mut bytes = head.metadata;
        // The conversion keeps the value: the file has this many bytes.
        bytes.resize(metadata_bytes + head.body_bytes as usize, 0);
        self.read(&mut bytes[metadata_bytes..])?;
        check_uncompressed(&bytes, metadata_bytes)?;
        // The conversions keep the values: the metadata has at most 64 MiB, and the file contains the body.
        let block = Block::new(0, metadata_bytes as i32, head.body_bytes as i64);
        Ok((block, Buffer::from_vec(bytes)))
    }

    /// Skips the body of a message.
    pub(crate) fn pass_over(&mut self, head: &Head) -> Result<(), Fault> {
        self.stream.seek_relative(head.body_bytes as i64)?;
        self.offset_bytes += head.body_bytes;
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), Fault> {
        self.stream.read_exact(into)?;
        self.offset_bytes += into.len() as u64;
        Ok(())
    }
}

impl Head {
    pub(crate) fn kind(&self) -> Result<MessageHeader, Fault> {
        Ok(message(&self.metadata)?.header_type())
    }

    pub(crate) fn message(&self) -> Result<Message<'_>, Fault> {
        message(&self.metadata)
    }

    /// Returns the bytes that describe the message, without the length prefix.
    pub(crate) fn described(&self) -> &[u8] {
        self.metadata.get(8..).unwrap_or_default()
    }

    /// Returns the number of rows of the batch in this message.
    pub(crate) fn rows(&self) -> Result<u64, Fault> {
        let message = message(&self.metadata)?;
        let rows = message
            .header_as_record_batch()
            .and_then(|batch| u64::try_from(batch.length()).ok());
        rows.ok_or_else(|| Fault::from("the file is corrupt: a batch has a negative number of rows"))
    }
}

/// Parses the metadata in `bytes`, after the length prefix.
fn message(bytes: &[u8]) -> Result<Message<'_>, Fault> {
    root_as_message(bytes.get(8..).unwrap_or_default())
        .map_err(|error| Fault::from(format!("invalid Arrow IPC file: {error}")))
}

/// Checks the uncompressed sizes that the buffers of a batch state against the limit, before memory is
/// allocated.
fn check_uncompressed(bytes: &[u8], metadata_bytes: usize) -> Result<(), Fault> {
    let message = message(&bytes[..metadata_bytes])?;
    let dictionary = message
        .header_as_dictionary_batch()
        .and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else {
        return Ok(());
    };
    if batch.compression().is_none() {
        return Ok(());
    }
    let body = &bytes[metadata_bytes..];
    let mut uncompressed = 0u64;
    for buffer in batch
        .buffers()
        .iter()
        .flatten()
        .filter(|buffer| buffer.length() > 0)
    {
        let at = usize::try_from(buffer.offset()).ok();
        let stated = at.and_then(|at| body.get(at..)?.first_chunk::<8>());
        let Some(stated) = stated else {
            return Err(Fault::from(
                "the file is corrupt: a buffer is located outside of its message",
            ));
        };
        // A buffer that is stored uncompressed states the size -1.
        uncompressed = uncompressed.saturating_add(i64::from_le_bytes(*stated).max(0) as u64);
    }
    if uncompressed > BODY_BYTES_MAX {
        return Err(Fault::from(format!(
            "a batch has {uncompressed} bytes uncompressed, the limit is {BODY_BYTES_MAX}: write smaller batches"
        )));
    }
    Ok(())
}
