//! The conversion of a picture function to its call.

use crate::graph::ImageFunction;

use crate::exec::call::Call;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::program::unprepared;

use super::part::PartCall;
use super::{calls, decode};

/// Returns `function` at `node` as a call on the component with the index `component`.
pub(crate) fn call(
    node: usize,
    function: &ImageFunction,
    component: usize,
    shared: &Shared,
) -> Result<Box<dyn Call>, ExecError> {
    if let ImageFunction::Decode(decode) = function {
        let call = decode::DecodeCall::new(decode, component, shared.skipped.clone());
        return Ok(Box::new(call));
    }
    let action = calls::Action::of(function).ok_or_else(|| unprepared(function.op_name()))?;
    let call = calls::ImageCall::new(node, function, action, component, shared);
    Ok(Box::new(call))
}

/// Returns `decode` and the next function as one call, if the next function crops or resizes. `node` is the
/// node of the next function.
pub(crate) fn fused(
    decode: &ImageFunction,
    (node, function): (usize, &ImageFunction),
    component: usize,
    shared: &Shared,
) -> Option<Box<dyn Call>> {
    let ImageFunction::Decode(decode) = decode else {
        return None;
    };
    let (rule, sizing) = calls::Action::of(function)?.part()?;
    let decode = decode::DecodeCall::new(decode, component, shared.skipped.clone());
    let seeds = shared.seeds(node, calls::own_seed(function));
    Some(Box::new(PartCall::new(
        decode,
        function.op_name(),
        seeds,
        rule,
        sizing,
    )))
}
