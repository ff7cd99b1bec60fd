//! The part of a dataset that a task reads under static sharding: the control plane's policy as the
//! pipeline's type.
//!
//! Owns no state. Which share it is was decided by the dispatcher, and where the dataset is divided is the
//! pipeline's.

use millstream_control::{Policy, TaskDef};
use millstream_pipeline::graph::{Graph, ShardBy, ShardingError, Share};
use millstream_pipeline::plan::SplitPlan;

use crate::planner::to_pipeline;

/// The dataset that this task computes.
///
/// # Errors
/// It cannot be divided.
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
        // All tasks of an iteration know it, and no other iteration has it.
        seed: definition.iteration.0,
    };
    graph.sharded(by, share)
}

/// The files that this task reads, unless they come with its splits.
pub(super) fn plan(definition: &TaskDef) -> Option<SplitPlan> {
    let plan = || to_pipeline(&definition.plan);
    match definition.policy {
        Policy::Dynamic => None,
        Policy::Off => Some(plan().whole()),
        // A file is some worker's by its number.
        Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => Some(plan().whole().in_order()),
    }
}
