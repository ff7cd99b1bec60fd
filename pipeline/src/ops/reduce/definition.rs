//! The definition of `reduce`, which folds all elements into a state and yields the final state.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::constant::Constant;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::folding::Folding;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The operation `reduce`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reducing(pub Folding);

impl Reducing {
    /// Returns the spec of the function's argument for the inputs `given`.
    pub(crate) fn argument(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0.argument(given, &self.spec(given)?)
    }
}

impl Operation for Reducing {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&self.0.initial)
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        smallvec![(&self.0.function, Role::Value)]
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        smallvec![&mut self.0.function]
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.0.initial.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0.state(given, |_, made| Ok(made))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(match given.count()? {
            // An infinite input yields no result, which no finite cardinality expresses.
            Cardinality::Infinite => Cardinality::Unknown,
            Cardinality::Finite(_) | Cardinality::Unknown => Cardinality::Finite(1),
        })
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("makes one element from the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes one element from all elements of a task")
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        let argument = resolution.given(self.name()).map(|given| self.argument(&given));
        let argument = argument.transpose()?;
        resolution.resolve(&mut self.0.function, argument.as_ref())
    }
}

/// Decodes a `reduce` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Folding::decode(encoded).map(|folding| Op::new(Reducing(folding)))
}

impl Dataset {
    /// Folds all elements into a state with `function`, starting from `initial`, and yields the final
    /// state as the only element. An empty dataset yields `initial`.
    ///
    /// `function` takes a dict of `state` and `element`. The function is a chain of maps that ends in
    /// the next state, with the same structure and dtypes. If the dataset is distributed in splits,
    /// each task folds its own elements and yields one state. `Executor::into_only` runs a dataset that
    /// ends in `reduce`.
    ///
    /// Works like `tf.data.Dataset.reduce`.
    pub fn reduce(self, initial: Constant, function: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        match body(function) {
            Ok(function) => self.then(Reducing(Folding { initial, function })),
            Err(error) => self.failed(error),
        }
    }
}
