//! The definition of `zip`, which combines one element of each input.
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

/// The parameters of `zip`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Zip {
    /// The name of each input, if elements are dicts. `None` makes elements tuples.
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
            Some(names) if names.len() != inputs => Err(format!(
                "has {} names, expected one for each of {inputs} inputs",
                names.len()
            )),
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
        Some("pairs elements of different splits")
    }
}

/// Returns the smaller cardinality. A cardinality of 0 is the smallest, even if the other one is
/// unknown.
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
    /// Yields tuples of one element from each dataset, in the given order, until the shortest dataset
    /// ends.
    ///
    /// If the datasets are distributed in splits, each task pairs the elements of its own splits.
    /// Elements of the same position meet only if a single worker reads the dataset.
    ///
    /// Works like `tf.data.Dataset.zip`.
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

    /// Works like [`Dataset::zip`], but yields dicts in which each dataset's element has the dataset's
    /// name.
    pub fn zip_named<'a>(datasets: impl IntoIterator<Item = (&'a str, Dataset)>) -> Dataset {
        let (names, datasets): (Vec<String>, Vec<Dataset>) = datasets
            .into_iter()
            .map(|(name, dataset)| (name.to_owned(), dataset))
            .unzip();
        Dataset::joined(Zip { names: Some(names) }, datasets)
    }
}
