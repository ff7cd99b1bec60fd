//! The definition of `zip`: the elements of several inputs side by side.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::limits::NODES_MAX;
use crate::graph::spec::side_by_side;
use crate::graph::tree::{Given, Operation};
use std::ops::RangeInclusive;

/// Parameters of `zip`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Zip {
    /// The name of each input in the dict that an element is; absent = elements are tuples.
    #[n(0)]
    pub names: Option<Vec<String>>,
}

impl Operation for Zip {
    fn name(&self) -> &'static str {
        "zip"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        1..=NODES_MAX
    }

    fn check(&self, inputs: usize) -> Result<(), String> {
        match &self.names {
            Some(names) if names.len() != inputs => {
                Err(format!("has {} names for {inputs} inputs", names.len()))
            }
            Some(names) => names.iter().try_for_each(|name| check_name("name", name)),
            None => Ok(()),
        }
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        side_by_side(self.names.as_deref(), &given.specs).map_err(|reason| given.not_allowed(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(given.counts.iter().copied().fold(Cardinality::Infinite, shorter))
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("pairs whatever splits a task was dealt")
    }
}

/// The smaller of two; nothing is smaller than none, whatever the other one is.
fn shorter(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Finite(0), _) | (_, Finite(0)) => Finite(0),
        (Finite(one), Finite(other)) => Finite(one.min(other)),
        (Infinite, bound) | (bound, Infinite) => bound,
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

impl Dataset {
    /// Tuples of one element of each dataset, in this order, as many as the shortest dataset has elements.
    ///
    /// Where splits are dealt out, each task pairs those it was given: only one worker pairs elements of the
    /// same position.
    ///
    /// Works as `tf.data.Dataset.zip`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let pairs = collect(Dataset::zip([Dataset::range(0, 3, 1), Dataset::range(10, 20, 1)]), 100)?;
    /// assert_eq!(pairs.len(), 3);
    /// assert_eq!((pairs[2][0].as_i64(), pairs[2][1].as_i64()), (Some(2), Some(12)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn zip(datasets: impl IntoIterator<Item = Dataset>) -> Dataset {
        Dataset::joined(Zip { names: None }, datasets)
    }

    /// Makes dicts in which each dataset's element has its name; else as [`Dataset::zip`].
    pub fn zip_named<'a>(datasets: impl IntoIterator<Item = (&'a str, Dataset)>) -> Dataset {
        let (names, datasets): (Vec<String>, Vec<Dataset>) = datasets
            .into_iter()
            .map(|(name, dataset)| (name.to_owned(), dataset))
            .unzip();
        Dataset::joined(Zip { names: Some(names) }, datasets)
    }
}
