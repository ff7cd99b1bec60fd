//! NumPy files: whether an element is a row or a file.
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
    /// Whether an element is a whole file; else it is a row: what lies at one index of the leading dimension,
    /// which is the same for all arrays of an archive.
    #[n(0)]
    pub whole: bool,
    /// The wanted arrays of an archive, and the spec of an element. In `npy` no array has a name.
    #[n(1)]
    pub columns: Columns,
    /// The treatment of files that cannot be read.
    #[n(2)]
    pub on_error: OnError,
}

impl Numpy {
    /// The rows of arrays.
    pub fn rows(columns: Columns) -> Numpy {
        Numpy {
            columns,
            ..Numpy::default()
        }
    }

    /// The arrays of a file as one element.
    pub fn whole(columns: Columns) -> Numpy {
        Numpy {
            whole: true,
            ..Numpy::rows(columns)
        }
    }
}
