//! Files of elements, as `save`, `cache` and `snapshot` write them: what they hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::params::SpecField;

/// Parameters of `elements`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Elements {
    /// The spec of the written elements; a file of other elements is an error.
    #[n(0)]
    pub spec: SpecField,
}
