//! `decode_csv`: parses lines of comma-separated values into one component for each column.

use millstream_element::{Dtype, ElementSpec, MAX_COMPONENTS, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::feature::unpacked;
use super::function::NativeFunction;
use crate::graph::check::check_name;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::expr::{DtypeField, column_of};
use crate::graph::named::{comma, yes};
use crate::graph::params::SpecField;

/// Parameters of `decode_csv`.
///
/// The component holds lines of values in a tensor of any shape. The columns that replace the component are
/// tensors of the same shape.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct DecodeCsv {
    /// The component that holds the lines.
    #[n(0)]
    pub component: String,
    /// All columns of a line, in order.
    #[n(1)]
    pub columns: Vec<CsvField>,
    /// The byte between two values.
    #[n(2)]
    #[serde(default = "comma")]
    pub delimiter: u8,
    /// `true` if values may be quoted. A quoted value may contain delimiters.
    #[n(3)]
    #[serde(default = "yes")]
    pub quoted: bool,
    /// A text that marks a missing value. The empty text always marks a missing value.
    #[n(4)]
    #[serde(default)]
    pub missing: String,
}

/// One column of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct CsvField {
    /// The name of the component.
    #[n(0)]
    #[serde(default)]
    pub name: String,
    /// The dtype of the values: an integer or float type, `string` or `bytes`.
    #[n(1)]
    pub dtype: DtypeField,
    /// The scalar that replaces a missing value. With `None` a missing value is an error, but a missing
    /// string is empty.
    #[n(2)]
    pub default: Option<ConstantTensor>,
    /// `true` if the column is skipped: it becomes no component and is not parsed.
    #[n(3)]
    #[serde(default)]
    pub skipped: bool,
}

impl CsvField {
    /// Describes a column that has a value in every line.
    pub fn new(name: impl Into<String>, dtype: Dtype) -> CsvField {
        CsvField {
            name: name.into(),
            dtype: DtypeField(dtype),
            default: None,
            skipped: false,
        }
    }

    /// Describes a column that is skipped.
    pub fn skipped() -> CsvField {
        CsvField {
            name: String::new(),
            dtype: DtypeField(Dtype::String),
            default: None,
            skipped: true,
        }
    }

    /// Sets the scalar that replaces a missing value.
    #[must_use]
    pub fn or(mut self, default: ConstantTensor) -> CsvField {
        self.default = Some(default);
        self
    }

    fn check(&self) -> Result<(), String> {
        if self.skipped {
            return Ok(());
        }
        check_name("column", &self.name)?;
        let dtype = self.dtype.0;
        if matches!(
            dtype,
            Dtype::Bool | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::C64 | Dtype::C128
        ) {
            return Err(format!(
                "cannot read the column {:?} as {dtype}: read it as a number or a string, and cast or compare it",
                self.name
            ));
        }
        let Some(default) = &self.default else {
            return Ok(());
        };
        let spec = ElementSpec::single(TensorSpec::scalar(dtype)).map_err(|error| error.to_string())?;
        let constant = Constant {
            spec: SpecField(spec),
            tensors: vec![default.clone()],
        };
        constant.check().map_err(|reason| {
            format!(
                "has an invalid default for the column {:?} of {dtype}: {reason}",
                self.name
            )
        })
    }
}

impl DecodeCsv {
    /// Describes comma-separated columns with quotes, as in RFC 4180.
    pub fn new(component: impl Into<String>, columns: impl IntoIterator<Item = CsvField>) -> DecodeCsv {
        DecodeCsv {
            component: component.into(),
            columns: columns.into_iter().collect(),
            delimiter: b',',
            quoted: true,
            missing: String::new(),
        }
    }
}

impl NativeFunction for DecodeCsv {
    fn check(&self) -> Result<(), String> {
        const COLUMNS_MAX: usize = 1 << 16;
        if self.columns.len() > COLUMNS_MAX {
            return Err(format!(
                "has {} columns, the limit is {COLUMNS_MAX}",
                self.columns.len()
            ));
        }
        let kept: Vec<&CsvField> = self.columns.iter().filter(|column| !column.skipped).collect();
        if kept.is_empty() || kept.len() > MAX_COMPONENTS {
            return Err(format!(
                "keeps {} columns, expected 1 to {MAX_COMPONENTS}",
                kept.len()
            ));
        }
        for (index, column) in kept.iter().enumerate() {
            column.check()?;
            if kept[..index].iter().any(|other| other.name == column.name) {
                return Err(format!("names the column {:?} twice", column.name));
            }
        }
        if matches!(self.delimiter, b'"' | b'\n' | b'\r') {
            return Err("has a quote or a line end as its delimiter, expected another byte".to_owned());
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        check_name("mark of a missing value", &self.missing)
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let spec = &input.components()[column_of(&self.component, input)?];
        if !matches!(spec.dtype(), Dtype::String | Dtype::Bytes) {
            return Err(format!(
                "expected component {:?} to be strings, found {input}",
                self.component
            ));
        }
        let kept = self.columns.iter().filter(|column| !column.skipped);
        let parts = kept.map(|column| {
            let dtype = column.dtype.0;
            let spec = match spec.dims() {
                Some(dims) => TensorSpec::with_dims(dtype, dims),
                None => TensorSpec::unknown_rank(dtype),
            };
            (column.name.clone(), (Structure::Leaf, vec![spec]))
        });
        unpacked(input, &self.component, parts)
    }

    fn feature(&self) -> Option<&'static str> {
        Some("text")
    }
}
