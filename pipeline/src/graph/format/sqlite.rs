//! SQLite databases: the query to run, and the components of its rows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_names;
use crate::graph::expr::DtypeField;
use crate::graph::on_error::OnError;

/// The maximum number of bytes in a query.
const QUERY_BYTES_MAX: usize = 1 << 20;

/// Parameters of `sqlite`, whose files are databases. The databases are opened read-only.
///
/// The query reads a whole database, so a database is one split. After an interruption the query runs again,
/// and the rows that were read before are skipped. The query should therefore order its rows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Sqlite {
    /// A single SQL statement that yields rows and changes nothing.
    #[n(0)]
    pub query: String,
    /// The components that the columns of the result become, in the order of the query.
    #[n(1)]
    pub columns: Vec<SqlColumn>,
    /// The treatment of rows that cannot be read.
    #[n(2)]
    #[serde(default)]
    pub on_error: OnError,
}

/// A component made of one column of the result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct SqlColumn {
    /// The component's name.
    #[n(0)]
    pub name: String,
    /// The dtype of the component: an integer type, `f32`, `f64`, `bool`, `string` or `bytes`.
    #[n(1)]
    pub dtype: DtypeField,
    /// `true` if a null is read as the empty value of its type: 0, false or an empty text. Otherwise a null
    /// is an error.
    #[n(2)]
    #[serde(default)]
    pub null_as_default: bool,
}

impl SqlColumn {
    /// Describes a column without nulls.
    pub fn required(name: impl Into<String>, dtype: Dtype) -> SqlColumn {
        SqlColumn {
            name: name.into(),
            dtype: DtypeField(dtype),
            null_as_default: false,
        }
    }

    /// Describes a column whose nulls are read as 0, false or an empty text.
    pub fn nullable(name: impl Into<String>, dtype: Dtype) -> SqlColumn {
        SqlColumn {
            null_as_default: true,
            ..SqlColumn::required(name, dtype)
        }
    }
}

impl Sqlite {
    /// Reads the rows of `query`. A row that cannot be read is an error.
    pub fn new(query: impl Into<String>, columns: impl IntoIterator<Item = SqlColumn>) -> Sqlite {
        Sqlite {
            query: query.into(),
            columns: columns.into_iter().collect(),
            on_error: OnError::Raise,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.query.trim().is_empty() || self.query.len() > QUERY_BYTES_MAX {
            return Err(format!(
                "has a query of {} bytes, expected 1 to {QUERY_BYTES_MAX} bytes",
                self.query.len()
            ));
        }
        if self.columns.is_empty() {
            return Err("names no columns".to_owned());
        }
        for column in &self.columns {
            if let Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::C64 | Dtype::C128 =
                column.dtype.0
            {
                return Err(format!(
                    "cannot read the column {:?} as {}: read it as f32 and cast it",
                    column.name, column.dtype.0
                ));
            }
        }
        check_names("column", self.columns.iter().map(|column| column.name.as_str()))
    }

    pub(crate) fn spec(&self) -> Result<ElementSpec, SpecError> {
        let columns = self.columns.iter();
        ElementSpec::dict(columns.map(|column| (column.name.clone(), TensorSpec::scalar(column.dtype.0))))
    }
}
