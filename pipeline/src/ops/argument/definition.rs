//! The definition of `argument`, which stands for the argument of a function as a dataset of one
//! element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::Graph;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use std::ops::RangeInclusive;

/// The operation `argument`, which has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument;

impl Operation for Argument {
    fn name(&self) -> &'static str {
        "argument"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        Ok(Vec::new())
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check_place(&self, role: Role, _: usize) -> Result<(), String> {
        match role {
            Role::Dataset => Err(
                "stands for a function's argument, but this graph is not the body of a function".to_owned(),
            ),
            Role::Function | Role::Value => Ok(()),
        }
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(Cardinality::Finite(1))
    }
}

/// Decodes an `argument` operation.
pub(crate) fn decode(_: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Argument))
}

/// Returns the graph of a function's body, which `function` builds over its argument.
pub(crate) fn body(function: impl FnOnce(Dataset) -> Dataset) -> Result<Graph, GraphError> {
    function(Dataset::source(Argument)).function_graph()
}
