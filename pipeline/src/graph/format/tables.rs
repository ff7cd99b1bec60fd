//! Parquet and Arrow IPC files: whether an element is a row or a batch of rows, and what a null is.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::on_error::OnError;

use super::columns::Columns;

/// Rows of an element.
pub const TABLE_ROWS_MAX: u64 = 1 << 24;

/// Parameters of `parquet` and `arrow`.
///
/// Numbers and booleans are scalars, a fixed-size list of n of them has n items, a list is of any length; a
/// list of lists is ragged. Texts are strings, binaries bytes. A struct is a dict. Dates, times and durations
/// are the integers they are stored as. Dictionaries are what they stand for. Maps, unions, decimals and
/// intervals are refused.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// Rows of an element, which has a leading dimension then, and lists are ragged; absent = an element is
    /// one row. The last element of a file may have fewer.
    #[n(0)]
    pub rows: Option<u64>,
    /// The wanted columns, the outermost ones, and the spec of an element.
    #[n(1)]
    pub columns: Columns,
    /// Whether a null is read as what is nothing of its type: 0, false, an empty text, a list without items;
    /// else it is an error.
    #[n(2)]
    pub nulls_as_default: bool,
    /// The treatment of records that cannot be read: of a row with a null that row, of a broken file the rest
    /// of it.
    #[n(3)]
    pub on_error: OnError,
    /// The components that the reader's consumers use, as a rewrite finds out before the dataset is executed;
    /// `None` = all. It does not travel with the dataset.
    #[cbor(skip)]
    #[serde(skip)]
    pub looked_at: Option<Vec<String>>,
}

impl Table {
    /// The rows of files.
    pub fn rows(columns: Columns) -> Table {
        Table {
            columns,
            ..Table::default()
        }
    }

    /// Batches of `rows` rows of one file.
    pub fn batches(rows: u64, columns: Columns) -> Table {
        Table {
            rows: Some(rows),
            ..Table::rows(columns)
        }
    }

    /// Returns whether somebody may look at the outermost column `name`, or at what is in it.
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
