//! The definition of `read`, which reads the files whose paths arrive as elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use serde_json::{Map, Value};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::format::Format;
use crate::graph::params::SpecField;
use crate::graph::tree::Resolution;
use crate::graph::tree::{Given, Op, Operation};

/// The operation that reads files of one format.
#[derive(Debug, Clone, PartialEq)]
pub struct Read(pub Format);

impl Operation for Read {
    fn name(&self) -> &'static str {
        self.0.op_name()
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        self.0.encode()
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        // The parameters select columns, or name an example of the files. Its path differs between machines.
        Ok(Some(Vec::new()))
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.0.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0.spec(given.registry, given.input()?)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("reads every file from its start and cannot start at a position")
    }

    fn reads_files(&self) -> bool {
        true
    }

    fn lacks_columns(&self) -> bool {
        self.0.columns().is_some_and(|columns| columns.declared.is_none())
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        if let Some(columns) = self.0.columns_mut() {
            columns.declared = Some(SpecField(resolution.output().clone()));
        }
        Ok(())
    }
}

/// Decodes an operation that reads files.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Format::decode(encoded).map(|format| Op::new(Read(format)))
}

/// Adds the reading of a format to the dataset of the paths. A folder of images names its files itself.
pub(crate) fn named(
    name: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    let format = Format::named(name, parameters)?;
    Ok(match (format, <[Dataset; 1]>::try_from(inputs)) {
        (format, Ok([paths])) => paths.read(format),
        (Format::ImageFolder(folder), Err(inputs)) if inputs.is_empty() => Dataset::image_folder(folder),
        (format, Err(inputs)) => Dataset::joined(Read(format), inputs),
    })
}
