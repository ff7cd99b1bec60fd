//! JSON lines: the values of a document that become components.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::{check_name, check_names};
use crate::graph::on_error::OnError;
use crate::graph::params::SpecField;

use super::records::Compression;

/// Parameters of `json_lines`. Each line is a document; lines of white space only are ignored.
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
    /// The path to the value: keys of objects and indices of arrays, from the outermost in.
    #[n(1)]
    pub path: Vec<String>,
    /// The type of the value: the spec of one tensor, of known rank. A tensor of several dimensions is read
    /// from nested arrays; the arrays of one dimension must have equal lengths.
    #[n(2)]
    pub tensor: SpecField,
    /// The JSON text that is read if the value is missing or null; `None` makes a missing value an error.
    #[n(3)]
    pub default: Option<String>,
}

impl JsonColumn {
    /// Describes the value of the key `name`, which every document must have.
    pub fn required(name: impl Into<String>, tensor: TensorSpec) -> Result<JsonColumn, SpecError> {
        let name = name.into();
        Ok(JsonColumn {
            path: vec![name.clone()],
            name,
            tensor: SpecField(ElementSpec::single(tensor)?),
            default: None,
        })
    }

    /// Sets the path to the value, if it is not the key with the component's name.
    #[must_use]
    pub fn at<P: Into<String>>(mut self, path: impl IntoIterator<Item = P>) -> JsonColumn {
        self.path = path.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the JSON text that is read if the value is missing or null.
    #[must_use]
    pub fn or(mut self, default: impl Into<String>) -> JsonColumn {
        self.default = Some(default.into());
        self
    }

    /// Returns the type of the value: after the check, the field has exactly one tensor.
    pub(crate) fn tensor(&self) -> Option<&TensorSpec> {
        self.tensor.0.components().first()
    }

    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let [tensor] = self.tensor.0.components() else {
            return Err(format!(
                "reads the field {name:?} as {}, which is not a single tensor",
                self.tensor.0
            ));
        };
        if tensor.dims().is_none() {
            return Err(format!(
                "reads the field {name:?} as a tensor of any rank: declare its number of dimensions"
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
    /// Reads uncompressed files, and treats broken lines as errors.
    pub fn new(fields: impl IntoIterator<Item = JsonColumn>) -> JsonLines {
        JsonLines {
            fields: fields.into_iter().collect(),
            compression: Compression::None,
            on_error: OnError::Raise,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.fields.is_empty() {
            return Err("names no fields".to_owned());
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
