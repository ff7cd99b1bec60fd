//! The state and the function that `scan` and `reduce` have in common.
//!
//! The function is a chain of maps over a dict of `state` and `element`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, Structure};

use super::codec::Encoded;
use super::constant::Constant;
use super::error::{AnalysisError, GraphError};
use super::spec::{node_specs, widened};
use super::tree::Given;
use super::tree::Graph;

/// The maximum number of rounds in which the shapes of a state are widened until they describe all results of
/// the function. Each round makes at least one more dimension, or a rank, unknown.
const WIDENED_MAX: usize = 64;

/// The initial state of a `scan` or `reduce`, and the function that changes the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Folding {
    /// The state before the first element of every pass.
    pub initial: Constant,
    /// The function, called with a dict of `state` and `element`. For `reduce` the function makes the next
    /// state; for `scan`, the next state and the output.
    pub function: Graph,
}

impl Folding {
    pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Folding, GraphError> {
        Ok(Folding {
            function: encoded.function(0, "function")?,
            initial: encoded.params()?,
        })
    }

    /// Returns the spec that describes every state: the initial state and all states that the function makes.
    /// `next` extracts the spec of the next state from the spec of the function's result.
    pub(crate) fn state(
        &self,
        given: &Given<'_>,
        next: impl Fn(&ElementSpec, ElementSpec) -> Result<ElementSpec, AnalysisError>,
    ) -> Result<ElementSpec, AnalysisError> {
        let mut state = self.initial.spec.0.clone();
        for _ in 0..WIDENED_MAX {
            let made = self.made(given, &state)?;
            let wider = wider(given, &state, &next(&state, made)?)?;
            if wider == state {
                return Ok(state);
            }
            state = wider;
        }
        Err(given.mismatch("the shapes of its state change with every call of its function"))
    }

    /// Returns the spec of the function's result for a state of the spec `state` and an element of the input.
    pub(crate) fn made(&self, given: &Given<'_>, state: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        let argument = self.argument(given, state)?;
        let made = node_specs(&self.function, given.registry, Some(&argument))?.pop();
        made.ok_or_else(|| given.mismatch("it has no function"))
    }

    /// Returns the spec of the function's argument: a dict of `state` and `element`.
    pub(crate) fn argument(
        &self,
        given: &Given<'_>,
        state: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        let element = given.input()?;
        let entry = |name: &str, spec: &ElementSpec| (name.to_owned(), spec.structure().clone());
        let structure = Structure::Dict(vec![entry("state", state), entry("element", element)]);
        let components = state.components().iter().chain(element.components()).cloned();
        ElementSpec::new(structure, components.collect()).map_err(|error| given.not_allowed(error))
    }

    /// Splits `made`, the spec of the function's result, into the specs of the next state and of the output.
    pub(crate) fn parts(
        given: &Given<'_>,
        state: &ElementSpec,
        made: &ElementSpec,
    ) -> Result<(ElementSpec, ElementSpec), AnalysisError> {
        let parts = match made.structure() {
            Structure::Tuple(items) | Structure::List(items) => items.iter().collect(),
            Structure::Dict(entries) => entries.iter().map(|(_, item)| item).collect(),
            Structure::Leaf | Structure::Ragged { .. } | Structure::Sparse | Structure::None => Vec::new(),
        };
        let [first, second] = parts[..] else {
            return Err(given.mismatch(format!(
                "expected its function to make a tuple or dict of two, the next state and the output, found {made}"
            )));
        };
        let count = state.components().len();
        if first != state.structure() || made.components().len() < count {
            return Err(given.mismatch(format!(
                "expected its function to make the next state {state} as its first part, found {made}"
            )));
        }
        let (next, output) = made.components().split_at(count);
        let allowed = |structure: &Structure, components: &[_]| {
            ElementSpec::new(structure.clone(), components.to_vec()).map_err(|error| given.not_allowed(error))
        };
        Ok((allowed(first, next)?, allowed(second, output)?))
    }
}

/// Returns the narrowest spec that describes the states of both specs.
fn wider(given: &Given<'_>, state: &ElementSpec, next: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
    let pairs = state.components().iter().zip(next.components());
    let alike = pairs.clone().all(|(one, other)| one.dtype() == other.dtype());
    if next.structure() != state.structure() || !alike {
        return Err(given.mismatch(format!(
            "expected its function to keep the structure and dtypes of the state {state}, found {next}"
        )));
    }
    let components = pairs.map(|(one, other)| widened(one, other)).collect();
    ElementSpec::new(state.structure().clone(), components).map_err(|error| given.not_allowed(error))
}
