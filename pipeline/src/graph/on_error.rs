//! The treatment of unreadable data, a parameter of several operations.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

/// The treatment of a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The pipeline ends with an error that names the file, the offset and the key.
    #[default]
    #[n(0)]
    Raise,
    /// The record is skipped, counted and logged.
    #[n(1)]
    Skip,
}
