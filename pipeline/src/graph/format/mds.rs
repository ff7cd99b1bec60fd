//! MosaicML shards: which columns of a sample are wanted.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::on_error::OnError;

use super::columns::Columns;

/// The name of the index of a directory of shards.
pub(crate) const INDEX: &str = "index.json";

/// Parameters of `mds`, whose files are shards, plain or compressed with zstd, each of which says what its
/// columns are.
///
/// `int` is `i64`, `uint8` to `float64` are scalars of these types, `str` is a string; `bytes`, `jpeg` and
/// `png` are bytes as stored, `json` is a string of JSON. `ndarray` is a tensor. `pkl` is refused: to read it
/// is to run what is in it.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Mds {
    /// The wanted columns, and the spec of an element.
    #[n(0)]
    pub columns: Columns,
    /// The treatment of records that cannot be read: of a broken sample that sample, of a broken shard the
    /// rest of it.
    #[n(1)]
    pub on_error: OnError,
}

impl Mds {
    /// Shards whose broken samples are errors.
    pub fn new(columns: Columns) -> Mds {
        Mds {
            columns,
            on_error: OnError::Raise,
        }
    }
}
