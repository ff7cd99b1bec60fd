//! MosaicML shards: the selected columns of a sample.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::on_error::OnError;

use super::columns::Columns;

/// The name of the index file in a directory of shards.
pub(crate) const INDEX: &str = "index.json";

/// Parameters of `mds`, whose files are shards, plain or compressed with zstd. Each shard describes its
/// columns.
///
/// The type of a column determines the component:
///
/// - `int` becomes an `i64`, and `uint8` to `float64` become scalars of the named type.
/// - `str` becomes a string, and `json` becomes a string of JSON.
/// - `bytes`, `jpeg` and `png` become byte strings with the stored bytes.
/// - `ndarray` becomes a tensor.
///
/// `pkl` is refused, because decoding a pickle executes code from the file.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Mds {
    /// The selected columns, and the spec of an element.
    #[n(0)]
    pub columns: Columns,
    /// The treatment of records that cannot be read. For a broken sample the treatment applies to the sample,
    /// and for a broken shard to the rest of the shard.
    #[n(1)]
    pub on_error: OnError,
}

impl Mds {
    /// Reads shards, and treats broken samples as errors.
    pub fn new(columns: Columns) -> Mds {
        Mds {
            columns,
            on_error: OnError::Raise,
        }
    }
}
