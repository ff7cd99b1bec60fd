//! The definition of `files`: the paths that a glob pattern matches.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::registry::Registry;
use crate::graph::tree::Graph;
use crate::graph::tree::{Given, Operation};
use crate::graph::units::Splitting;
use std::ops::RangeInclusive;

/// Parameters of `files`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The glob pattern.
    #[n(0)]
    pub pattern: String,
    /// Whether the listing is read in a shuffled order rather than sorted.
    #[n(1)]
    #[serde(default)]
    pub shuffle: bool,
    /// The seed of that order; without one every task draws its own, or every iteration where the files are
    /// dealt out in splits.
    #[n(2)]
    pub seed: Option<u64>,
    /// Whether what matches are indexes, and the files are the shards that they list; absent = no.
    #[n(3)]
    pub are_indexes: Option<bool>,
}

impl Operation for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("pattern", &self.pattern)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.scalar(Dtype::String)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(Cardinality::Unknown)
    }

    fn splitting(&self, _: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(Splitting::Listed)
    }

    fn draw_alike(&mut self, seed: u64) {
        self.seed.get_or_insert(seed);
    }
}

impl Dataset {
    /// The paths that `pattern` matches, sorted, as string scalars.
    ///
    /// Works as `tf.data.Dataset.list_files` without its shuffling. A pattern that matches nothing, or more
    /// than 2^20 files, is an error when they are listed.
    pub fn files(pattern: impl Into<String>) -> Dataset {
        Dataset::source(Files {
            pattern: pattern.into(),
            shuffle: false,
            seed: None,
            are_indexes: None,
        })
    }

    /// The paths that `pattern` matches, in an order drawn again every pass: the same on every worker with a
    /// seed, each worker's own without. Where a dispatcher deals the files out, the order is drawn once an
    /// iteration, and a `repeat` within the dataset keeps it.
    ///
    /// Works as `tf.data.Dataset.list_files`.
    pub fn files_shuffled(pattern: impl Into<String>, seed: Option<u64>) -> Dataset {
        Dataset::source(Files {
            pattern: pattern.into(),
            shuffle: true,
            seed,
            are_indexes: None,
        })
    }
}
