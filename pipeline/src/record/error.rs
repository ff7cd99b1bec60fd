//! Why a record file cannot be read on, and where. Whose file it is, its reader knows.

use std::io::ErrorKind;

/// Where in the uncompressed bytes of a file its reader gave up, and why. The data is to blame.
#[derive(Debug)]
pub(crate) struct RecordError {
    /// Where the record begins that cannot be read.
    pub(crate) offset_bytes: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// What reading failed with. Decompressors report the end of a file that was cut off as an error of its own.
pub(super) fn unreadable(error: &std::io::Error) -> String {
    let kind = error.kind();
    if kind == ErrorKind::UnexpectedEof {
        "the file is cut off: its compressed data has no end".to_owned()
    } else if matches!(kind, ErrorKind::InvalidInput | ErrorKind::InvalidData) {
        format!("the compressed data is corrupt, or of another compression: {error}")
    } else {
        format!("cannot read the file: {error}")
    }
}
