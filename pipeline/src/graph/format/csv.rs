//! CSV files: the fields of a row that become components, and the syntax of rows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_names;
use crate::graph::expr::DtypeField;
use crate::graph::named::{comma, yes};
use crate::graph::on_error::OnError;

use super::records::Compression;

/// The maximum number of fields in a row. Fields that do not become components count too.
pub const CSV_FIELDS_MAX: u32 = 1 << 16;

/// Parameters of `csv`, which reads rows as RFC 4180 defines them.
///
/// A field may be quoted. Inside a quoted field, delimiters and line ends are text, and a quote is written as
/// two quotes. Empty lines are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// The components that the fields of a row become, in this order.
    #[n(0)]
    pub columns: Vec<CsvColumn>,
    /// `true` if the first row of each file has the names of the columns. Columns are then found by name.
    #[n(1)]
    #[serde(default)]
    pub header: bool,
    /// The ASCII byte that separates fields.
    #[n(2)]
    #[serde(default = "comma")]
    pub delimiter: u8,
    /// `true` if fields may be quoted; otherwise a quote is an ordinary character.
    #[n(3)]
    #[serde(default = "yes")]
    pub quoting: bool,
    /// A text that marks a missing value. An empty field is always a missing value.
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
    /// The name of the component, and of the column if the files have a header.
    #[n(0)]
    pub name: String,
    /// The dtype of the component.
    #[n(1)]
    pub dtype: DtypeField,
    /// The text that is read if the value is missing; `None` makes a missing value an error.
    #[n(2)]
    pub default: Option<String>,
    /// The index of the field, from 0, which takes precedence over the header. If the index is `None` and the
    /// files have no header, the columns are the fields in order.
    #[n(3)]
    pub index: Option<u32>,
}

impl CsvColumn {
    /// Describes a field that has a value in every row.
    pub fn required(name: impl Into<String>, dtype: Dtype) -> CsvColumn {
        CsvColumn {
            name: name.into(),
            dtype: DtypeField(dtype),
            default: None,
            index: None,
        }
    }

    /// Describes a field whose missing values are read as the text `default`.
    pub fn with_default(name: impl Into<String>, dtype: Dtype, default: impl Into<String>) -> CsvColumn {
        CsvColumn {
            default: Some(default.into()),
            ..CsvColumn::required(name, dtype)
        }
    }

    /// Sets the index of the field, counted from 0.
    #[must_use]
    pub fn at(mut self, index: u32) -> CsvColumn {
        self.index = Some(index);
        self
    }
}

impl Csv {
    /// Describes comma-separated files with quotes and without a header. A broken row is an error.
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
            return Err("names no columns".to_owned());
        }
        if !self.delimiter.is_ascii() || matches!(self.delimiter, b'\n' | b'\r' | b'"') {
            return Err(format!(
                "cannot have the delimiter {:?}: expected an ASCII character other than a quote or a line end",
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
                    "reads the column {:?} from a field beyond the limit of {CSV_FIELDS_MAX} fields",
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
