//! Why a record file cannot be read on, and where. Whose file it is, its reader knows.

use std::io;

use crate::exec::ErrorKind;
use crate::storage::blame;

/// Where in the uncompressed bytes of a file its reader gave up, and why.
#[derive(Debug)]
pub(crate) struct RecordError {
    /// Who is to blame: the data, unless it cannot even be read.
    pub(crate) kind: ErrorKind,
    /// Where the record begins that cannot be read.
    pub(crate) offset_bytes: u64,
    /// What is wrong with it.
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

    /// What reading failed with. Decompressors report the end of a file that was cut off as an error of its own.
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
