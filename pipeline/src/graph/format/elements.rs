//! Files of elements that `save`, `cache` and `snapshot` write.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::params::SpecField;

/// Parameters of `elements`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Elements {
    /// The spec of the elements in the files. A file with elements of another spec is an error.
    #[n(0)]
    pub spec: SpecField,
}
