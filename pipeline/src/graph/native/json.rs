//! `parse_json`: parses a JSON text into its declared fields.

use millstream_element::{Dtype, ElementSpec, MAX_RANK, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::feature::{rows_of, unpacked};
use super::function::NativeFunction;
use crate::graph::check::check_name;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::expr::DtypeField;
use crate::graph::params::SpecField;

/// Parameters of `parse_json`, which replaces the component with the text by the fields.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseJson {
    /// The component that holds the text.
    #[n(0)]
    pub component: String,
    /// The selected fields; other fields are ignored.
    #[n(1)]
    pub fields: Vec<JsonField>,
}

/// A selected field of the text.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct JsonField {
    /// The name of the component.
    #[n(0)]
    pub name: String,
    /// The path to the value: keys, and indices of arrays, joined by dots. The empty path is the whole text.
    #[n(1)]
    #[serde(default)]
    pub path: String,
    /// The dtype of the items: an integer type, `f32`, `f64`, `bool` or `string`.
    #[n(2)]
    pub dtype: DtypeField,
    /// The lengths of the nested arrays of the value. `None` allows any length, but all arrays at that depth
    /// must have equal lengths.
    #[n(3)]
    #[serde(default)]
    pub dims: Vec<Option<u64>>,
    /// The value that replaces a missing or null value. With `None` a missing or null value is an error. A
    /// field with a default needs known dimensions.
    #[n(4)]
    pub default: Option<ConstantTensor>,
}

impl JsonField {
    /// Describes the value at `path`, which becomes the component `name`.
    pub fn new(
        name: impl Into<String>,
        path: impl Into<String>,
        dtype: Dtype,
        dims: &[Option<u64>],
    ) -> JsonField {
        JsonField {
            name: name.into(),
            path: path.into(),
            dtype: DtypeField(dtype),
            dims: dims.to_vec(),
            default: None,
        }
    }

    /// Sets the default for a value that is missing or null.
    #[must_use]
    pub fn or(mut self, default: ConstantTensor) -> JsonField {
        self.default = Some(default);
        self
    }

    /// Returns the spec of the component.
    pub(crate) fn spec(&self) -> TensorSpec {
        TensorSpec::with_dims(self.dtype.0, &self.dims)
    }

    fn check(&self) -> Result<(), String> {
        check_name("field", &self.name)?;
        if !self.path.is_empty() {
            check_name("path", &self.path)?;
        }
        if matches!(
            self.dtype.0,
            Dtype::F16
                | Dtype::Bf16
                | Dtype::F8E4M3
                | Dtype::F8E5M2
                | Dtype::C64
                | Dtype::C128
                | Dtype::Bytes
        ) {
            return Err(format!(
                "cannot read the field {:?} as {}: JSON holds integers, f32, f64, bool and string; read one of these and cast it",
                self.name, self.dtype.0
            ));
        }
        if self.dims.len() > MAX_RANK {
            return Err(format!(
                "has {} dimensions, the limit is {MAX_RANK}",
                self.dims.len()
            ));
        }
        let Some(default) = &self.default else {
            return Ok(());
        };
        let spec = ElementSpec::single(self.spec()).map_err(|error| error.to_string())?;
        let constant = Constant {
            spec: SpecField(spec),
            tensors: vec![default.clone()],
        };
        constant.check().map_err(|reason| {
            format!(
                "has a default that does not fit the field {:?}: {reason}",
                self.name
            )
        })
    }
}

impl NativeFunction for ParseJson {
    fn check(&self) -> Result<(), String> {
        if self.fields.is_empty() {
            return Err("names no fields".to_owned());
        }
        for (index, field) in self.fields.iter().enumerate() {
            field.check()?;
            if self.fields[..index].iter().any(|other| other.name == field.name) {
                return Err(format!("names the field {:?} twice", field.name));
            }
        }
        Ok(())
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        if rows_of(input, &self.component)?.is_some() {
            return Err(
                "expected a single text, found a batch: parse texts before they are batched".to_owned(),
            );
        }
        let fields = self.fields.iter();
        let fields = fields.map(|field| (field.name.clone(), (Structure::Leaf, vec![field.spec()])));
        unpacked(input, &self.component, fields)
    }

    fn feature(&self) -> Option<&'static str> {
        Some("text")
    }
}
