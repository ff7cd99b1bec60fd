//! The specs of the results of operations' functions, and the rules for them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};

use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::tree::Graph;

/// Returns the spec of `reduce`'s results for windows of elements of `input`.
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

/// Refuses a function that makes anything but an `i64` of elements of `input`.
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
                "it is to be an i64 scalar, and is {}",
                found.map_or_else(|| "nothing".to_owned(), |spec| spec.to_string())
            ),
        }),
    }
}
