//! The layout of record files, as parameters of the operation that reads them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// Bytes of one record, which is held in memory as a whole: what a tar shard's file may have.
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
    /// gzip, of one member or several.
    #[n(1)]
    Gzip,
    /// zlib.
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
    /// The bytes of every record, at least 1.
    #[n(0)]
    pub record_bytes: u64,
    /// In front of the first record.
    #[n(1)]
    #[serde(default)]
    pub header_bytes: u64,
    /// Behind the last record.
    #[n(2)]
    #[serde(default)]
    pub footer_bytes: u64,
    /// The compression of the files.
    #[n(3)]
    #[serde(default)]
    pub compression: Compression,
}

impl FixedLength {
    /// Checks the layout.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.record_bytes == 0 {
            return Err("reads records of no bytes".to_owned());
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
