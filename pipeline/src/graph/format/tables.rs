//! Parquet and Arrow IPC files: the number of rows of an element, and the treatment of nulls.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::on_error::OnError;

use super::columns::Columns;

/// The maximum number of rows in an element.
pub const TABLE_ROWS_MAX: u64 = 1 << 24;

/// Parameters of `parquet` and `arrow`.
///
/// The type of a column determines the component:
///
/// - A number or boolean becomes a scalar.
/// - A fixed-size list of n items becomes a tensor of n items.
/// - A list becomes a vector of any length, and a list of lists becomes a ragged tensor.
/// - A text becomes a string, and a binary value becomes a byte string.
/// - A struct becomes a dict.
/// - A date, time or duration becomes the integer that the file stores.
/// - A dictionary-encoded column becomes the values that the dictionary encodes.
///
/// Maps, unions, decimals and intervals are refused.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// The number of rows of an element; `None` means that an element is one row. With a number of rows,
    /// components have a leading dimension and lists are ragged. The last element of a file may have fewer
    /// rows.
    #[n(0)]
    pub rows: Option<u64>,
    /// The selected columns at the outermost level, and the spec of an element.
    #[n(1)]
    pub columns: Columns,
    /// `true` if a null is read as the empty value of its type: 0, false, an empty text or an empty list.
    /// Otherwise a null is an error.
    #[n(2)]
    pub nulls_as_default: bool,
    /// The treatment of records that cannot be read. For a null the treatment applies to its row, and for
    /// broken bytes to the rest of the file.
    #[n(3)]
    pub on_error: OnError,
    /// The components that the consumers of the reader use; `None` means all. A rewrite sets the list before
    /// the dataset is executed. The list is never encoded.
    #[cbor(skip)]
    #[serde(skip)]
    pub looked_at: Option<Vec<String>>,
}

impl Table {
    /// Reads the rows of files, one row an element.
    pub fn rows(columns: Columns) -> Table {
        Table {
            columns,
            ..Table::default()
        }
    }

    /// Reads batches of `rows` rows from one file.
    pub fn batches(rows: u64, columns: Columns) -> Table {
        Table {
            rows: Some(rows),
            ..Table::rows(columns)
        }
    }

    /// Returns whether any consumer may use the outermost column `name`, or a column inside it.
    #[cfg(any(feature = "arrow", test))]
    pub(crate) fn is_looked_at(&self, name: &str) -> bool {
        let within = |path: &String| path.starts_with(name);
        self.looked_at
            .as_ref()
            .is_none_or(|paths| paths.iter().any(within))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self.rows {
            Some(rows) if rows == 0 || rows > TABLE_ROWS_MAX => Err(format!(
                "reads {rows} rows at once, which is not within 1..={TABLE_ROWS_MAX}"
            )),
            Some(_) | None => self.columns.check(),
        }
    }
}
