//! The definition of `sample`, which takes each element from a randomly drawn input.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::added;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::limits::NODES_MAX;
use crate::graph::spec::alike;
use crate::graph::tree::{Given, Operation};
use std::ops::RangeInclusive;

/// The parameters of `sample`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The weight of each input, relative to the other weights. Each weight is finite and above 0.
    #[n(0)]
    pub weights: Vec<f64>,
    /// The seed. Without a seed, every task draws its own numbers.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether the dataset ends when a drawn input has ended. Otherwise `sample` continues with the
    /// other inputs.
    #[n(2)]
    pub stop_on_empty: bool,
    /// Whether every pass and epoch draws the same numbers.
    #[n(3)]
    #[cbor(default)]
    #[serde(default)]
    pub fixed: bool,
}

impl Operation for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        1..=NODES_MAX
    }

    fn check(&self, inputs: usize) -> Result<(), String> {
        check_weights(&self.weights, inputs)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        alike(&given.specs).map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let mut all = given.counts.iter().copied();
        Ok(if !self.stop_on_empty || given.counts.len() == 1 {
            all.fold(Cardinality::Finite(0), added)
        } else if all.all(|input| input == Cardinality::Infinite) {
            Cardinality::Infinite
        } else {
            // The end depends on the input that is first drawn after its end, which the graph does not
            // tell.
            Cardinality::Unknown
        })
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("chooses an input by the number of elements that the task has yielded")
    }

    fn draw_alike(&mut self, seed: u64) {
        self.seed.get_or_insert(seed);
    }

    fn fix_draws(&mut self) -> bool {
        self.fixed = true;
        true
    }
}

fn check_weights(weights: &[f64], inputs: usize) -> Result<(), String> {
    if weights.len() != inputs {
        return Err(format!(
            "has {} weights, expected one for each of {inputs} inputs",
            weights.len()
        ));
    }
    match weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight > 0.0))
    {
        Some(weight) => Err(format!(
            "has the weight {weight}, expected a finite number above 0"
        )),
        // Each weight is finite, but the sum of the weights may overflow.
        None if !weights.iter().sum::<f64>().is_finite() => {
            Err("has weights whose sum is not finite".to_owned())
        }
        None => Ok(()),
    }
}

impl Dataset {
    /// Takes each element from a dataset that is drawn with a probability proportional to its weight.
    /// Every pass draws again. With a seed, all workers draw the same order; without a seed, each
    /// worker draws its own. Datasets of weight 0 are dropped.
    ///
    /// If a drawn dataset has ended, `stop_on_empty` decides: either the result ends, or the other
    /// datasets continue until all have ended. The datasets need the same structure and dtypes, as
    /// in [`Dataset::concatenate`].
    ///
    /// Works like `tf.data.Dataset.sample_from_datasets`. [`Dataset::graph`] refuses negative weights,
    /// and weights that are all 0.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let elements = collect(Dataset::sample(
    ///     [(0.7, Dataset::range(0, 5, 1)), (0.3, Dataset::range(10, 15, 1))],
    ///     Some(1),
    ///     false,
    /// ), 100)?;
    /// assert_eq!((elements.len(), elements[0][0].dims()), (10, &[0u64; 0][..]));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn sample(
        datasets: impl IntoIterator<Item = (f64, Dataset)>,
        seed: Option<u64>,
        stop_on_empty: bool,
    ) -> Dataset {
        let (weights, datasets): (Vec<f64>, Vec<Dataset>) =
            datasets.into_iter().filter(|(weight, _)| *weight != 0.0).unzip();
        let sample = Sample {
            weights,
            seed,
            stop_on_empty,
            fixed: false,
        };
        Dataset::joined(sample, datasets)
    }
}
