//! The trainer's side of the control plane: requests to the dispatcher, and the pushes of its iterations.
//!
//! | file | contents |
//! |---|---|
//! | `requests` | datasets, jobs, iterations, status |
//! | `jobs` | the jobs that were requested, so that they can be requested again |
//! | `iteration` | one client: its pushes, its reports, its end |
//! | `pushes` | the pushes of a client, also after a gap |
//! | `told` | the pushes that a client has already received |
//! | `attachment` | the snapshots after gaps in the pushes |
//! | `inbox` | the delivery of pushes to their clients |

mod attachment;
mod inbox;
mod iteration;
mod jobs;
mod pushes;
mod requests;
mod told;

pub use attachment::Attachment;
pub use iteration::{IterationHandle, IterationReporter};
pub use requests::{Client, DatasetInfo};
pub use told::Told;
