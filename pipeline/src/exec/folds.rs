//! Opens the operations of the family that carries a state.

use std::sync::Arc;

use crate::graph::Fold;

use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::iterate::Input;
use super::ops;
use super::program::Program;
use super::value::Value;

/// The operation `fold`, which is the node `node` of its graph, over `input`.
pub(super) fn open(
    fold: &Fold,
    function: &Arc<Program>,
    node: usize,
    input: Input,
    shared: &Shared,
) -> Result<Input, ExecError> {
    let chain = function.chain(shared)?;
    let state = |constant| {
        let refused = |reason| ExecError::new(ErrorKind::Caller, fold.op_name(), reason);
        ops::tensors(constant).map(Value::from).map_err(refused)
    };
    Ok(match fold {
        Fold::Scan(folding) => Box::new(ops::Scan::new(state(&folding.initial)?, chain, input, shared)),
        Fold::Reduce(folding) => Box::new(ops::Reduce::new(state(&folding.initial)?, chain, input, shared)),
        Fold::RejectionResample(resampling) => Box::new(ops::RejectionResample::new(
            resampling.params.clone(),
            shared.seeds(node, resampling.params.seed),
            chain,
            input,
            shared,
        )),
    })
}
