//! The plan of an iteration, made before it starts, so that every worker sees the same: the number of splits
//! of each source, and the list of files. Listing files is the only I/O here, done once per iteration.

mod error;
mod listing;
mod parts;
mod split_plan;

pub use error::PlanError;
pub(crate) use listing::listed;
pub use split_plan::{FileOrder, SourcePlan, SplitPlan, plan_splits};
