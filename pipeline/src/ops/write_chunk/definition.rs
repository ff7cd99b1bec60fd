//! The definition of `write_chunk`, which writes all elements of its input to one file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::spec::side_by_side;
use crate::graph::tree::{Given, Operation, Role};
use crate::ops::cache::check_kept_place;
use crate::ops::snapshot::Packing;

/// The parameters of `write_chunk`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct WriteChunk {
    /// The directory of the saved dataset, which has the subdirectories `chunks` and `uncommitted`.
    #[n(0)]
    pub path: String,
    /// The compression of the file.
    #[n(1)]
    pub packing: Packing,
}

impl Operation for WriteChunk {
    fn name(&self) -> &'static str {
        "write_chunk"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("path", &self.path)
    }

    fn check_place(&self, role: Role, nesting: usize) -> Result<(), String> {
        check_kept_place(role, nesting, true)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.input()?;
        let number = given.scalar(Dtype::I64)?;
        side_by_side(None, &[&number, &number]).map_err(|reason| given.not_allowed(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        match given.count()? {
            Cardinality::Infinite => Ok(Cardinality::Infinite),
            Cardinality::Unknown | Cardinality::Finite(_) => Ok(Cardinality::Finite(1)),
        }
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("yields one element for all elements of a chunk")
    }

    fn reads_files(&self) -> bool {
        false
    }
}

impl Dataset {
    /// Writes all elements to one file of the directory `path`, and yields a tuple of two `i64` scalars: the
    /// number of elements and the size of the file in bytes. In an exactly-once job, each split has a file of
    /// its own; otherwise the file has the number 0. A file that exists is not written again.
    ///
    /// The directory must have the subdirectories `chunks` and `uncommitted`. [`Dataset::chunks`] yields the
    /// paths of the files.
    ///
    /// Works like the writers of `tf.data.experimental.service.distributed_save`.
    pub fn write_chunk(self, path: impl Into<String>, packing: Packing) -> Dataset {
        let path = path.into();
        self.then(WriteChunk { path, packing })
    }
}
