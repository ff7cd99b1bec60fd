//! The formats, and what the graph asks of each: its name on the wire, its rules, what its files yield.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};

use crate::graph::codec::{Parameters, encoded};
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::op::OnError;

use super::elements::Elements;
use super::records::{FixedLength, TfRecord};
use super::webdataset::WebDataset;

/// What is read from the files whose paths come in. Each file is read from its start to its end, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// The lines of text files.
    TextLines,
    /// Records, each behind its length, with checksums.
    TfRecord(TfRecord),
    /// Records of one length.
    FixedLength(FixedLength),
    /// The samples of WebDataset tar shards.
    WebDataset(WebDataset),
    /// Elements that were saved.
    Elements(Elements),
}

impl Format {
    /// The names of all of them.
    pub(in crate::graph) const NAMES: &'static [&'static str] =
        &["text_lines", "tfrecord", "fixed_length", "webdataset", "elements"];

    /// The name of the operation that reads it, on the wire and in messages.
    pub fn op_name(&self) -> &'static str {
        match self {
            Format::TextLines => "text_lines",
            Format::TfRecord(_) => "tfrecord",
            Format::FixedLength(_) => "fixed_length",
            Format::WebDataset(_) => "webdataset",
            Format::Elements(_) => "elements",
        }
    }

    /// The feature of this crate that reads it; `None` when it is always there.
    pub fn feature(&self) -> Option<&'static str> {
        match self {
            Format::TextLines => None,
            Format::TfRecord(_) | Format::FixedLength(_) => Some("records"),
            Format::WebDataset(_) => Some("webdataset"),
            Format::Elements(_) => Some("saved"),
        }
    }

    /// What becomes of what cannot be read.
    pub fn on_error(&self) -> OnError {
        match self {
            Format::TextLines | Format::TfRecord(_) | Format::FixedLength(_) | Format::Elements(_) => {
                OnError::Raise
            }
            Format::WebDataset(webdataset) => webdataset.on_error,
        }
    }

    /// What a path leads to, in messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Format::TextLines => "a text file",
            Format::TfRecord(_) | Format::FixedLength(_) => "a record file",
            Format::WebDataset(_) => "a tar shard",
            Format::Elements(_) => "a file of elements",
        }
    }

    /// The rules that the parameters obey by themselves.
    pub(in crate::graph) fn check(&self) -> Result<(), String> {
        match self {
            Format::TextLines | Format::TfRecord(_) | Format::Elements(_) => Ok(()),
            Format::FixedLength(fixed) => fixed.check(),
            Format::WebDataset(webdataset) => webdataset.check(),
        }
    }

    /// What the files yield that `input`'s elements are the paths of.
    pub(in crate::graph) fn spec(&self, input: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        match input.components() {
            [only] if only.accepts(Dtype::String, &[]) => {}
            _ => {
                let what = self.what();
                let reason = format!("it wants one string, the path of {what}, and is given {input}");
                return Err(self.mismatch(reason));
            }
        }
        let spec = match self {
            Format::TextLines => ElementSpec::single(TensorSpec::scalar(Dtype::String)),
            Format::TfRecord(_) | Format::FixedLength(_) => {
                ElementSpec::single(TensorSpec::scalar(Dtype::Bytes))
            }
            Format::WebDataset(webdataset) => webdataset.spec(),
            Format::Elements(elements) => Ok(elements.spec.0.clone()),
        };
        spec.map_err(|error| AnalysisError::Spec {
            op: self.op_name().to_owned(),
            reason: error.to_string(),
        })
    }

    pub(in crate::graph) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Format::TextLines => Ok(Vec::new()),
            Format::TfRecord(params) => encoded(params),
            Format::FixedLength(params) => encoded(params),
            Format::WebDataset(params) => encoded(params),
            Format::Elements(params) => encoded(params),
        }
    }

    /// The format that is read by the operation of this name, if there is one.
    pub(in crate::graph) fn decode(op: &str, params: &Parameters<'_>) -> Result<Option<Format>, GraphError> {
        Ok(Some(match op {
            "text_lines" => Format::TextLines,
            "tfrecord" => Format::TfRecord(params.decode()?),
            "fixed_length" => Format::FixedLength(params.decode()?),
            "webdataset" => Format::WebDataset(params.decode()?),
            "elements" => Format::Elements(params.decode()?),
            _ => return Ok(None),
        }))
    }

    fn mismatch(&self, reason: String) -> AnalysisError {
        AnalysisError::Mismatch {
            op: self.op_name().to_owned(),
            reason,
        }
    }
}
