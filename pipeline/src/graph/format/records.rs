//! The layout of record files, as parameters of the operation that reads them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The maximum number of bytes of one record, which is held in memory as a whole. A file in a tar shard has
/// the same limit.
pub const RECORD_BYTES_MAX: u64 = 1 << 30;

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// The file is not compressed.
    #[default]
    #[n(0)]
    #[serde(alias = "")]
    None,
    /// The file is compressed with gzip, and has one member or several.
    #[n(1)]
    Gzip,
    /// The file is compressed with zlib.
    #[n(2)]
    Zlib,
}

/// Parameters of `tfrecord`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct TfRecord {
    /// The compression of the files.
    #[n(0)]
    pub compression: Compression,
}

/// Parameters of `fixed_length`, in bytes of the uncompressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct FixedLength {
    /// The length of every record, in bytes; at least 1.
    #[n(0)]
    pub record_bytes: u64,
    /// The number of bytes in front of the first record.
    #[n(1)]
    #[serde(default)]
    pub header_bytes: u64,
    /// The number of bytes behind the last record.
    #[n(2)]
    #[serde(default)]
    pub footer_bytes: u64,
    /// The compression of the files.
    #[n(3)]
    #[serde(default)]
    pub compression: Compression,
}

impl FixedLength {
    /// Checks that the lengths are within their limits, and that a record has at least one byte.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.record_bytes == 0 {
            return Err("has records of 0 bytes, the least is 1".to_owned());
        }
        let most = self.record_bytes.max(self.header_bytes).max(self.footer_bytes);
        if most > RECORD_BYTES_MAX {
            return Err(format!(
                "reads {most} bytes at once, the limit is {RECORD_BYTES_MAX}"
            ));
        }
        Ok(())
    }
}
