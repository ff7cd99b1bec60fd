//! The definition of `files`, which yields the paths that match a glob pattern.
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

/// The parameters of `files`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The glob pattern.
    #[n(0)]
    pub pattern: String,
    /// Whether the paths are yielded in a shuffled order rather than sorted.
    #[n(1)]
    #[serde(default)]
    pub shuffle: bool,
    /// The seed of the shuffled order. Without a seed, every task draws its own order; if the files are
    /// distributed in splits, every iteration draws one order.
    #[n(2)]
    pub seed: Option<u64>,
    /// Whether the matching files are indexes that list the shards to read. `None` means no.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        // The same files may have other paths on another cluster.
        let pattern = String::new();
        encoded(&Files {
            pattern,
            ..self.clone()
        })
        .map(Some)
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
    /// Yields the paths that match `pattern`, sorted, as string scalars.
    ///
    /// Works like `tf.data.Dataset.list_files` without its shuffling. Listing fails if the pattern
    /// matches nothing, or more than 2^20 files.
    pub fn files(pattern: impl Into<String>) -> Dataset {
        Dataset::source(Files {
            pattern: pattern.into(),
            shuffle: false,
            seed: None,
            are_indexes: None,
        })
    }

    /// Yields the paths that match `pattern` in a shuffled order, which is drawn again in every pass.
    /// With a seed, all workers draw the same order; without a seed, each worker draws its own. If a
    /// dispatcher distributes the files, the order is drawn once per iteration, and a `repeat` within
    /// the dataset keeps that order.
    ///
    /// Works like `tf.data.Dataset.list_files`.
    pub fn files_shuffled(pattern: impl Into<String>, seed: Option<u64>) -> Dataset {
        Dataset::source(Files {
            pattern: pattern.into(),
            shuffle: true,
            seed,
            are_indexes: None,
        })
    }
}
