//! The specs of the results of functions that are graphs, and the checks of these specs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};

use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::tree::Graph;

/// Returns the spec of the results of the graph `reduce` for windows of elements of `input`.
pub(crate) fn reduced_spec(
    op: &str,
    reduce: &Graph,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<ElementSpec, AnalysisError> {
    let output = node_specs(reduce, registry, Some(input))?.pop();
    output.ok_or_else(|| AnalysisError::Mismatch {
        op: op.to_owned(),
        reason: "it has no function".to_owned(),
    })
}

/// Refuses a function whose result for elements of `input` is not an `i64` scalar.
pub(crate) fn wants_number(
    what: &str,
    function: &Graph,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<(), AnalysisError> {
    let output = node_specs(function, registry, Some(input))?.pop();
    let is_number = |spec: &ElementSpec| match spec.components() {
        [only] => only.accepts(Dtype::I64, &[]),
        _ => false,
    };
    match output {
        Some(output) if is_number(&output) => Ok(()),
        found => Err(AnalysisError::Mismatch {
            op: what.to_owned(),
            reason: format!(
                "expected an i64 scalar, found {}",
                found.map_or_else(|| "nothing".to_owned(), |spec| spec.to_string())
            ),
        }),
    }
}
