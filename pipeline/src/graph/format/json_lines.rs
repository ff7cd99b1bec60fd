//! JSON lines: which values of a document become components.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::{check_name, check_names};
use crate::graph::on_error::OnError;
use crate::graph::params::SpecField;

use super::records::Compression;

/// Parameters of `json_lines`. A line is a document; lines of nothing but white space are none.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct JsonLines {
    /// The components that the values of a document become, in this order.
    #[n(0)]
    pub fields: Vec<JsonColumn>,
    /// The compression of the files.
    #[n(1)]
    #[serde(default)]
    pub compression: Compression,
    /// The treatment of lines that cannot be read.
    #[n(2)]
    #[serde(default)]
    pub on_error: OnError,
}

/// A component made of one value of each document.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct JsonColumn {
    /// The component's name.
    #[n(0)]
    pub name: String,
    /// The place of the value: keys of objects and indices of arrays, from the outermost in.
    #[n(1)]
    pub path: Vec<String>,
    /// The type of the value: the spec of one tensor, of known rank. Arrays in arrays are tensors: all of one
    /// length where a dimension is one.
    #[n(2)]
    pub tensor: SpecField,
    /// The JSON text that is read where the value is missing or null; without one that is an error.
    #[n(3)]
    pub default: Option<String>,
}

impl JsonColumn {
    /// The value of the key `name` of every document.
    pub fn required(name: impl Into<String>, tensor: TensorSpec) -> Result<JsonColumn, SpecError> {
        let name = name.into();
        Ok(JsonColumn {
            path: vec![name.clone()],
            name,
            tensor: SpecField(ElementSpec::single(tensor)?),
            default: None,
        })
    }

    /// States where the value is, if it is not the key of the component's name.
    #[must_use]
    pub fn at<P: Into<String>>(mut self, path: impl IntoIterator<Item = P>) -> JsonColumn {
        self.path = path.into_iter().map(Into::into).collect();
        self
    }

    /// States what is read, as JSON, where the value is missing or null.
    #[must_use]
    pub fn or(mut self, default: impl Into<String>) -> JsonColumn {
        self.default = Some(default.into());
        self
    }

    /// Returns the type of the value; a field that was checked has one tensor.
    pub(crate) fn tensor(&self) -> Option<&TensorSpec> {
        self.tensor.0.components().first()
    }

    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let [tensor] = self.tensor.0.components() else {
            return Err(format!(
                "reads the field {name:?} as {}, which is no tensor",
                self.tensor.0
            ));
        };
        if tensor.dims().is_none() {
            return Err(format!(
                "reads the field {name:?} as a tensor of any rank: say how many dimensions it has"
            ));
        }
        if let Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::C64 | Dtype::C128 =
            tensor.dtype()
        {
            return Err(format!(
                "cannot read the field {name:?} as {}: read it as f32 and cast it",
                tensor.dtype()
            ));
        }
        self.path.iter().try_for_each(|part| check_name("key", part))
    }
}

impl JsonLines {
    /// Uncompressed files, whose broken lines are errors.
    pub fn new(fields: impl IntoIterator<Item = JsonColumn>) -> JsonLines {
        JsonLines {
            fields: fields.into_iter().collect(),
            compression: Compression::None,
            on_error: OnError::Raise,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.fields.is_empty() {
            return Err("reads no field".to_owned());
        }
        self.fields.iter().try_for_each(JsonColumn::check)?;
        check_names("field", self.fields.iter().map(|field| field.name.as_str()))
    }

    pub(crate) fn spec(&self) -> Result<ElementSpec, SpecError> {
        let fields = self.fields.iter();
        let fields = fields.filter_map(|field| Some((field.name.clone(), field.tensor()?.clone())));
        ElementSpec::dict(fields)
    }
}
