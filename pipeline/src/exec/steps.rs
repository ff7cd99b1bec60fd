//! Opens the operations of the family that needs parameters alone.

use millstream_element::ElementSpec;

use crate::graph::Step;

use super::context::Shared;
use super::error::ExecError;
use super::iterate::Input;
use super::ops;

/// The operation `step`, which is the node `node` of its graph, over `input`, whose elements are like `spec`.
pub(super) fn open(
    step: &Step,
    node: usize,
    spec: &ElementSpec,
    input: Input,
    shared: &Shared,
) -> Result<Input, ExecError> {
    Ok(match step {
        Step::Rebatch(rebatch) => Box::new(ops::Rebatch::new(rebatch.clone(), input, shared)),
        Step::ShuffleAndRepeat(shuffle) => {
            Box::new(ops::ShuffleAndRepeat::new(*shuffle, node, input, shared.clone()))
        }
        Step::Unique => Box::new(ops::Unique::new(input, shared)),
        Step::AssertCardinality(asserted) => {
            // Of a share nothing is known.
            let is_whole = shared.feed.is_none();
            Box::new(ops::AssertCardinality::new(asserted.count, is_whole, input))
        }
        Step::IgnoreErrors(ignored) => Box::new(ops::IgnoreErrors::new(ignored.log_warning, input, shared)),
        Step::Statistics(statistics) => Box::new(ops::Statistics::new(
            shared.statistics.stage(&statistics.name),
            input,
        )),
        Step::PackSequences(pack) => Box::new(ops::PackSequences::new(pack.clone(), spec, input, shared)?),
    })
}
