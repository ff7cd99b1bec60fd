//! NumPy files: parameters that say whether an element is a row or a whole file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::on_error::OnError;

use super::columns::Columns;

/// Parameters of `npy`, whose files hold one array, and of `npz`, whose files are archives of named arrays.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Numpy {
    /// `true` if an element is a whole file. Otherwise an element is a row: the items at one index of the
    /// leading dimension, which all arrays of an archive share.
    #[n(0)]
    pub whole: bool,
    /// The selected arrays of an archive, and the spec of an element. In `npy` files arrays have no names.
    #[n(1)]
    pub columns: Columns,
    /// The treatment of files that cannot be read.
    #[n(2)]
    pub on_error: OnError,
}

impl Numpy {
    /// Reads arrays row by row.
    pub fn rows(columns: Columns) -> Numpy {
        Numpy {
            columns,
            ..Numpy::default()
        }
    }

    /// Reads all arrays of a file as one element.
    pub fn whole(columns: Columns) -> Numpy {
        Numpy {
            whole: true,
            ..Numpy::rows(columns)
        }
    }
}
