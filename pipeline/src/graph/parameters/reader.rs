//! Parameters of the operations that make elements of the files whose paths come in, as far as they have no file of
//! their own.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// What becomes of a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum OnError {
    /// The pipeline ends with an error that names file, offset and key.
    #[default]
    #[n(0)]
    Raise,
    /// The record is counted, logged and left out.
    #[n(1)]
    Skip,
}

/// Parameters of `webdataset`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WebDataset {
    /// The extensions that become components, in this order; `__key__` is added after them.
    #[n(0)]
    pub fields: Vec<String>,
    /// What becomes of broken shards and incomplete samples.
    #[n(1)]
    pub on_error: OnError,
}
