//! Why a record file cannot be read on, and where. Whose file it is, its reader knows.

use std::io;

use crate::exec::ErrorKind;
use crate::storage::blame;

/// The reason and the place, in a file's uncompressed bytes, at which its reader stopped.
#[derive(Debug)]
pub(crate) struct RecordError {
    /// Party to blame: the data, unless the bytes cannot even be read.
    pub(crate) kind: ErrorKind,
    /// Start of the record that cannot be read.
    pub(crate) offset_bytes: u64,
    /// Reason why the record cannot be read.
    pub(crate) reason: String,
}

impl RecordError {
    /// The file is not what it should be.
    pub(super) fn damage(offset_bytes: u64, reason: String) -> RecordError {
        RecordError {
            kind: ErrorKind::Data,
            offset_bytes,
            reason,
        }
    }

    /// Converts an error of reading. Decompressors report the end of a truncated file as an error of its own.
    pub(super) fn unreadable(offset_bytes: u64, error: &io::Error) -> RecordError {
        let kind = error.kind();
        let reason = if kind == io::ErrorKind::UnexpectedEof {
            "the file is cut off: its compressed data has no end".to_owned()
        } else if matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) {
            format!("the compressed data is corrupt, or of another compression: {error}")
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
