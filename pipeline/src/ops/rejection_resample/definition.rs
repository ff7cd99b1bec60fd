//! The definition of `rejection_resample`, which drops elements until their classes have the target
//! frequencies.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::function_spec::wants_number;
use crate::graph::tree::Graph;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The maximum number of classes that `rejection_resample` distinguishes.
const CLASSES_MAX: usize = 1 << 16;

/// The parameters of `rejection_resample`, including its function.
#[derive(Debug, Clone, PartialEq)]
pub struct Resampling {
    /// The function that returns the class of an element: maps that end in an `i64`.
    pub class: Graph,
    /// The target frequencies of the classes, and the frequencies in the input.
    pub params: RejectionResample,
}

/// The parameters of `rejection_resample`, apart from its function.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RejectionResample {
    /// The target frequency of each class, relative to the other classes. Every frequency is at least
    /// 0, and at least one is above 0.
    #[n(0)]
    pub target: Vec<f64>,
    /// The frequency of each class in the input. `None` counts the classes of the elements that arrive.
    #[n(1)]
    pub initial: Option<Vec<f64>>,
    /// The seed. Without a seed, every task draws its own numbers.
    #[n(2)]
    pub seed: Option<u64>,
}

impl Operation for Resampling {
    fn name(&self) -> &'static str {
        "rejection_resample"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&self.params)
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        smallvec![(&self.class, Role::Value)]
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        smallvec![&mut self.class]
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.params.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        wants_number("the class", &self.class, given.registry, input)?;
        let structure = Structure::Tuple(vec![Structure::Leaf, input.structure().clone()]);
        let class = TensorSpec::scalar(Dtype::I64);
        let components = std::iter::once(class).chain(input.components().iter().cloned());
        ElementSpec::new(structure, components.collect()).map_err(|error| given.not_allowed(error))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("drops elements at random, by draws that each task counts separately")
    }

    fn draw_alike(&mut self, seed: u64) {
        self.params.seed.get_or_insert(seed);
    }
}

/// Decodes a `rejection_resample` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Resampling {
        class: encoded.function(0, "function")?,
        params: encoded.params()?,
    }))
}

impl RejectionResample {
    fn check(&self) -> Result<(), String> {
        check_distribution("target", &self.target)?;
        let Some(initial) = &self.initial else {
            return Ok(());
        };
        check_distribution("initial", initial)?;
        if initial.len() != self.target.len() {
            return Err(format!(
                "has {} classes in the initial distribution and {} in the target distribution",
                initial.len(),
                self.target.len()
            ));
        }
        let mut pairs = self.target.iter().zip(initial);
        match pairs.position(|(target, initial)| *target > 0.0 && *initial == 0.0) {
            Some(class) => Err(format!(
                "has a target above 0 for class {class}, whose frequency in the initial distribution is 0"
            )),
            None => Ok(()),
        }
    }
}

fn check_distribution(what: &str, distribution: &[f64]) -> Result<(), String> {
    if distribution.is_empty() || distribution.len() > CLASSES_MAX {
        return Err(format!(
            "has {} classes in the {what} distribution, expected 1 to {CLASSES_MAX}",
            distribution.len()
        ));
    }
    let is_wrong = |share: &&f64| !(share.is_finite() && **share >= 0.0);
    if let Some(share) = distribution.iter().find(is_wrong) {
        return Err(format!(
            "has {share} in the {what} distribution, expected finite numbers of at least 0"
        ));
    }
    let sum: f64 = distribution.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        Ok(())
    } else {
        Err(format!(
            "has a {what} distribution whose sum is {sum}, expected a finite sum above 0"
        ))
    }
}

impl Dataset {
    /// Yields tuples of the class and the element. Drops elements at random until the frequencies of
    /// the classes match `target`.
    ///
    /// `class` is a chain of maps from an element to an `i64`, an index of `target`. `initial` states
    /// the frequencies of the classes in this dataset. Without `initial`, the operation counts the
    /// classes of the elements that arrive, and starts from equal counts. Every element is yielded at
    /// most once.
    ///
    /// Works like `tf.data.Dataset.rejection_resample`. A class outside of `target` is a failure of its
    /// element.
    pub fn rejection_resample(
        self,
        class: impl FnOnce(Dataset) -> Dataset,
        target: impl Into<Vec<f64>>,
        initial: Option<Vec<f64>>,
        seed: Option<u64>,
    ) -> Dataset {
        let params = RejectionResample {
            target: target.into(),
            initial,
            seed,
        };
        match body(class) {
            Ok(class) => self.then(Resampling { class, params }),
            Err(error) => self.failed(error),
        }
    }
}
