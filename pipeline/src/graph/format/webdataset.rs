//! WebDataset tar shards: the files of a sample that become components.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, SpecError, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_names;
use crate::graph::on_error::OnError;

/// The name of the component that `webdataset` adds, which holds the sample's key.
pub const KEY_COMPONENT: &str = "__key__";

/// Parameters of `webdataset`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct WebDataset {
    /// The extensions of the files that become components, in this order. The component `__key__` is added at
    /// the end.
    #[n(0)]
    pub fields: Vec<String>,
    /// The treatment of broken shards and incomplete samples.
    #[n(1)]
    #[serde(default)]
    pub on_error: OnError,
}

impl WebDataset {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.fields.is_empty() {
            return Err("names no fields, such as \"jpg\"".to_owned());
        }
        check_names("field", self.fields.iter().map(String::as_str))
    }

    pub(crate) fn spec(&self) -> Result<ElementSpec, SpecError> {
        let fields = self.fields.iter();
        let fields = fields.map(|field| (field.clone(), TensorSpec::scalar(Dtype::Bytes)));
        ElementSpec::dict(fields.chain([(KEY_COMPONENT.to_owned(), TensorSpec::scalar(Dtype::String))]))
    }
}
