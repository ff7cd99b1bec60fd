//! CSV files: which fields of a row become components, and how rows are written.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_names;
use crate::graph::expr::DtypeField;
use crate::graph::named::{comma, yes};
use crate::graph::on_error::OnError;

use super::records::Compression;

/// Fields of a row, of which components are some.
pub const CSV_FIELDS_MAX: u32 = 1 << 16;

/// Parameters of `csv`. Rows are those of RFC 4180: fields may be in quotes, in which a quote is doubled and
/// delimiters and ends of lines are text. Empty lines are no rows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// The components that the fields of a row become, in this order.
    #[n(0)]
    pub columns: Vec<CsvColumn>,
    /// Whether the first row of each file names the columns, which are then found by their names.
    #[n(1)]
    #[serde(default)]
    pub header: bool,
    /// The byte between fields, of ASCII.
    #[n(2)]
    #[serde(default = "comma")]
    pub delimiter: u8,
    /// Whether a field may be in quotes; else a quote is text.
    #[n(3)]
    #[serde(default = "yes")]
    pub quoting: bool,
    /// A text that stands for a missing value, as an empty field does.
    #[n(4)]
    pub missing: Option<String>,
    /// The compression of the files.
    #[n(5)]
    #[serde(default)]
    pub compression: Compression,
    /// The treatment of rows that cannot be read.
    #[n(6)]
    #[serde(default)]
    pub on_error: OnError,
}

/// A component made of one field of each row.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct CsvColumn {
    /// The component's name, and the column's where the files have a header.
    #[n(0)]
    pub name: String,
    /// The dtype that the field is read as.
    #[n(1)]
    pub dtype: DtypeField,
    /// The text that is read where the value is missing; without one that is an error.
    #[n(2)]
    pub default: Option<String>,
    /// The number of the field, from 0 on, whatever a header says. Without it, and without a header, fields
    /// are the columns in their order.
    #[n(3)]
    pub index: Option<u32>,
}

impl CsvColumn {
    /// A field that every row has.
    pub fn required(name: impl Into<String>, dtype: Dtype) -> CsvColumn {
        CsvColumn {
            name: name.into(),
            dtype: DtypeField(dtype),
            default: None,
            index: None,
        }
    }

    /// A field read from `default` where its value is missing.
    pub fn with_default(name: impl Into<String>, dtype: Dtype, default: impl Into<String>) -> CsvColumn {
        CsvColumn {
            default: Some(default.into()),
            ..CsvColumn::required(name, dtype)
        }
    }

    /// States which field it is, from 0 on.
    #[must_use]
    pub fn at(mut self, index: u32) -> CsvColumn {
        self.index = Some(index);
        self
    }
}

impl Csv {
    /// Files with commas, quotes and without a header, whose broken rows are errors.
    pub fn new(columns: impl IntoIterator<Item = CsvColumn>) -> Csv {
        Csv {
            columns: columns.into_iter().collect(),
            header: false,
            delimiter: b',',
            quoting: true,
            missing: None,
            compression: Compression::None,
            on_error: OnError::Raise,
        }
    }

    /// Describes files whose first row names the columns.
    pub fn with_header(columns: impl IntoIterator<Item = CsvColumn>) -> Csv {
        Csv {
            header: true,
            ..Csv::new(columns)
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.columns.is_empty() {
            return Err("reads no column".to_owned());
        }
        if !self.delimiter.is_ascii() || matches!(self.delimiter, b'\n' | b'\r' | b'"') {
            return Err(format!(
                "cannot have {:?} between fields: one character of ASCII that is no quote and ends no line",
                char::from(self.delimiter)
            ));
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
            if column.index.is_some_and(|index| index >= CSV_FIELDS_MAX) {
                return Err(format!(
                    "reads the column {:?} from a field beyond {CSV_FIELDS_MAX}",
                    column.name
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
