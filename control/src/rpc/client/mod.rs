//! The trainer's side of the control plane: requests to the dispatcher, and the pushes of its iterations.
//!
//! | file | what it owns |
//! |---|---|
//! | `requests` | datasets, jobs, iterations, status |
//! | `jobs` | which jobs were asked for, to ask for them again |
//! | `iteration` | one client: its pushes, its reports, its end |
//! | `pushes` | what it is told, also behind a gap |
//! | `told` | what it was told already |
//! | `inbox` | which push belongs to which client |

mod inbox;
mod iteration;
mod jobs;
mod pushes;
mod requests;
mod told;

pub use iteration::{IterationHandle, IterationReporter};
pub use requests::{Client, DatasetInfo};
pub use told::Told;
