//! The part of a dataset that a task reads under static sharding. Translates the control plane's policy to
//! the pipeline's type.
//!
//! Owns no state. The dispatcher chose the share, and the pipeline decides the place where the dataset is
//! divided.

use millstream_control::{Policy, TaskDef};
use millstream_pipeline::graph::{Graph, ShardBy, ShardingError, Share};
use millstream_pipeline::plan::SplitPlan;

use crate::planner::to_pipeline;

/// Returns the dataset that this task computes.
///
/// # Errors
/// The dataset cannot be divided under this policy.
pub(super) fn share(graph: Graph, definition: &TaskDef) -> Result<Graph, ShardingError> {
    let by = match definition.policy {
        Policy::Off | Policy::Dynamic => return Ok(graph),
        Policy::File => ShardBy::Files,
        Policy::Data => ShardBy::Elements,
        Policy::FileOrData => ShardBy::FilesOrElements,
        Policy::Hint => ShardBy::Hint,
    };
    let share = Share {
        count: definition.worker_count,
        index: definition.worker_index,
        // The seed is the same for all tasks of an iteration, and differs between iterations.
        seed: definition.iteration.0,
    };
    graph.sharded(by, share)
}

/// Returns the split plan with the files that this task reads, or `None` if the dispatcher leases its splits.
pub(super) fn plan(definition: &TaskDef) -> Option<SplitPlan> {
    let plan = || to_pipeline(&definition.plan);
    match definition.policy {
        Policy::Dynamic => None,
        Policy::Off => Some(plan().whole()),
        // The number of a file decides which worker reads the file.
        Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => Some(plan().whole().in_order()),
    }
}
