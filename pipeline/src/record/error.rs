//! The error of a record file that cannot be read further. The caller knows the path of the file.

use std::io;

use crate::exec::ErrorKind;
use crate::storage::blame;

/// The reason why reading stopped, and the position in the file's uncompressed bytes.
#[derive(Debug)]
pub(crate) struct RecordError {
    /// The party to blame: the data, unless storage fails to read the bytes.
    pub(crate) kind: ErrorKind,
    /// The start of the record that cannot be read, in bytes.
    pub(crate) offset_bytes: u64,
    /// The reason why the record cannot be read.
    pub(crate) reason: String,
}

impl RecordError {
    /// Makes the error of a file with invalid content.
    pub(super) fn damage(offset_bytes: u64, reason: String) -> RecordError {
        RecordError {
            kind: ErrorKind::Data,
            offset_bytes,
            reason,
        }
    }

    /// Makes the error of a file whose size does not suit the records that the caller described.
    pub(super) fn unsuited(offset_bytes: u64, reason: String) -> RecordError {
        RecordError {
            kind: ErrorKind::Value,
            ..RecordError::damage(offset_bytes, reason)
        }
    }

    /// Converts an error of reading. A decompressor reports the end of a truncated file as an error of its
    /// own.
    pub(super) fn unreadable(offset_bytes: u64, error: &io::Error) -> RecordError {
        let kind = error.kind();
        let reason = if kind == io::ErrorKind::UnexpectedEof {
            "the file is cut off: its compressed data is incomplete".to_owned()
        } else if matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) {
            format!("the compressed data is corrupt, or has another compression format: {error}")
        } else {
            format!("cannot read the file: {error}")
        };
        RecordError {
            kind: blame(error),
            offset_bytes,
            reason,
        }
    }
}
