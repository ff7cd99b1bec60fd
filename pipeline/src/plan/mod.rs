//! The plan of an iteration, which fixes the number of splits of each source and the list of files. The plan
//! is made once, before the iteration starts, so that all workers use the same lists. Listing files is the
//! only I/O here.

mod digest;
mod error;
mod listed_item;
mod listing;
mod parts;
mod positions_digest;
mod split_plan;

pub use error::PlanError;
pub use listed_item::ListedItem;
pub(crate) use listing::listed;
pub use positions_digest::{POSITIONS_DIGEST_VERSION, positions_digest};
pub use split_plan::{FileOrder, SourcePlan, SplitPlan, plan_splits};
