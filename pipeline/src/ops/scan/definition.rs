//! The definition of `scan`, which applies a function to each element and to a state that the function
//! updates.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::multiplied;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::constant::Constant;
use crate::graph::counting::of_body;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::folding::Folding;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The operation `scan`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan(pub Folding);

impl Scan {
    /// Returns the spec of the function's argument for the inputs `given`.
    pub(crate) fn argument(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0.argument(given, &self.state(given)?)
    }

    fn state(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.0
            .state(given, |state, made| Ok(Folding::parts(given, state, &made)?.0))
    }
}

impl Operation for Scan {
    fn name(&self) -> &'static str {
        "scan"
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
        let state = self.state(given)?;
        let made = self.0.made(given, &state)?;
        Folding::parts(given, &state, &made).map(|(_, output)| output)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let argument = self.argument(given)?;
        let each = of_body(&self.0.function, &argument, given.registry)?;
        Ok(multiplied(given.count()?, each))
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("carries a state through the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("carries a state through the elements of each task")
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        let argument = resolution.given(self.name()).map(|given| self.argument(&given));
        let argument = argument.transpose()?;
        resolution.resolve(&mut self.0.function, argument.as_ref())
    }
}

/// Decodes a `scan` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Folding::decode(encoded).map(|folding| Op::new(Scan(folding)))
}

impl Dataset {
    /// Applies `function` to each element and a state. The state is `initial` at the start of every
    /// pass.
    ///
    /// `function` takes a dict of `state` and `element`. The function is a chain of maps that ends in a
    /// tuple or dict of the next state and the element to yield. The next state needs the structure and
    /// dtypes of `initial`. If the dataset is distributed in splits or shards, each task has a state of
    /// its own. The executor's saved state contains the state.
    ///
    /// Works like `tf.data.Dataset.scan`. The analysis of the dataset refuses a function that changes
    /// the structure or a dtype of the state.
    pub fn scan(self, initial: Constant, function: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        match body(function) {
            Ok(function) => self.then(Scan(Folding { initial, function })),
            Err(error) => self.failed(error),
        }
    }
}
