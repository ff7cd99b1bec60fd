//! A state and the function that changes it: what `scan` and `reduce` have in common.
//!
//! A function of a state is a chain of maps over a dict of `state` and `element`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, Structure};

use super::codec::Encoded;
use super::constant::Constant;
use super::error::{AnalysisError, GraphError};
use super::spec::{node_specs, widened};
use super::tree::Given;
use super::tree::Graph;

/// The number of times that the shapes of a state are widened, one dimension at a time, until they describe
/// the results of a function.
const WIDENED_MAX: usize = 64;

/// A state and the function that changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Folding {
    /// The state before the first element of every pass.
    pub initial: Constant,
    /// Makes the next state, of a scan the next state and what it yields, of a dict of `state` and `element`.
    pub function: Graph,
}

impl Folding {
    pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Folding, GraphError> {
        Ok(Folding {
            function: encoded.function(0, "function")?,
            initial: encoded.params()?,
        })
    }

    /// Returns what describes every state: the initial one and those that `next` finds in what the function
    /// makes.
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
        Err(given.mismatch("its function makes a state of ever other shapes"))
    }

    /// Returns what the function makes of such a state and an element.
    pub(crate) fn made(&self, given: &Given<'_>, state: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
        let argument = self.argument(given, state)?;
        let made = node_specs(&self.function, given.registry, Some(&argument))?.pop();
        made.ok_or_else(|| given.mismatch("it has no function"))
    }

    /// Returns what the function is called with.
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

    /// Returns the next state and the output that are in `made`.
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
                "its function is to make a tuple or dict of two, the next state and what is yielded, and makes {made}"
            )));
        };
        let count = state.components().len();
        if first != state.structure() || made.components().len() < count {
            return Err(given.mismatch(format!(
                "its function makes {made}, whose first part is to be the next state {state}"
            )));
        }
        let (next, output) = made.components().split_at(count);
        let allowed = |structure: &Structure, components: &[_]| {
            ElementSpec::new(structure.clone(), components.to_vec()).map_err(|error| given.not_allowed(error))
        };
        Ok((allowed(first, next)?, allowed(second, output)?))
    }
}

/// Returns the spec that describes both a state and the next.
fn wider(given: &Given<'_>, state: &ElementSpec, next: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
    let pairs = state.components().iter().zip(next.components());
    let alike = pairs.clone().all(|(one, other)| one.dtype() == other.dtype());
    if next.structure() != state.structure() || !alike {
        return Err(given.mismatch(format!(
            "its function makes {next} of the state {state}, which is to stay what it is"
        )));
    }
    let components = pairs.map(|(one, other)| widened(one, other)).collect();
    ElementSpec::new(state.structure().clone(), components).map_err(|error| given.not_allowed(error))
}
