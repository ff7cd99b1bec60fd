//! The recent work of the stages of a task's pipeline, which workers report with heartbeats, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// Maximum bytes of a stage's label. A longer label is cut off.
pub const STAGE_LABEL_BYTES_MAX: usize = 64;
/// Maximum number of stages of a task that a worker reports. Later stages are left out.
pub const STAGES_MAX: usize = 32;

/// The work of one stage of a task's pipeline since the previous report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct StagePace {
    /// The name of the operation with its parameters, in at most [`STAGE_LABEL_BYTES_MAX`] bytes.
    #[n(0)]
    pub label: String,
    /// The number of operations whose bodies contain the stage.
    #[n(1)]
    pub depth: u32,
    /// The number of elements that the stage yields in 1000 s.
    #[n(2)]
    pub elements_per_1000_s: u64,
    /// The number of thousandths of a thread that the stage keeps busy.
    #[n(3)]
    pub busy_permille: u32,
    /// The share of the time in which the next stage waits for this stage, in thousandths.
    #[n(4)]
    pub waited_permille: u32,
    /// The maximum number of threads that the stage uses.
    #[n(5)]
    pub threads: u32,
}

/// Cuts a report of stages to its limits.
pub(crate) fn cut(stages: &mut Vec<StagePace>) {
    stages.truncate(STAGES_MAX);
    for stage in stages {
        let cut = stage.label.floor_char_boundary(STAGE_LABEL_BYTES_MAX);
        stage.label.truncate(cut);
    }
}
