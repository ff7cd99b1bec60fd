//! The definition of `sample`: each element from an input that is drawn for it.
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

/// Parameters of `sample`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The weight of each input, in relation to the others: finite and above 0, one an input.
    #[n(0)]
    pub weights: Vec<f64>,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether it ends when an input that has ended is drawn, or goes on with the others.
    #[n(2)]
    pub stop_on_empty: bool,
    /// Whether every pass and epoch draws alike.
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
            // Which of them is the first to be drawn after its end is not known.
            Cardinality::Unknown
        })
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("picks by how many elements a task has had")
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
        return Err(format!("has {} weights for {inputs} inputs", weights.len()));
    }
    match weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight > 0.0))
    {
        Some(weight) => Err(format!(
            "has the weight {weight}, which is not a finite number above 0"
        )),
        // Each is finite, their sum need not be.
        None if !weights.iter().sum::<f64>().is_finite() => {
            Err("has weights without a finite sum".to_owned())
        }
        None => Ok(()),
    }
}

impl Dataset {
    /// Elements of these datasets in a random order: each from a dataset drawn in proportion to its weight,
    /// again every pass, the same on every worker with a seed, each worker's own without. Datasets of weight
    /// 0 are left out.
    ///
    /// Once a dataset that has ended is drawn, the whole ends if `stop_on_empty`; else the others go on until
    /// all have ended. They yield the same structure and dtypes, as for [`Dataset::concatenate`].
    ///
    /// Works as `tf.data.Dataset.sample_from_datasets`. Weights that are negative or all 0 are refused.
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
