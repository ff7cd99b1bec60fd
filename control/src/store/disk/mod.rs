//! The store on disk. Records on disk survive the process and a sudden power loss.
//!
//! | file | contents | |---|---|
//! | `store` | commits and loads records |
//! | `opening` | the work directory, its lock, and a store file that is complete and undamaged |
//! | `error` | the reasons for which a work directory cannot be used |

mod error;
mod opening;
mod store;

pub use error::WorkDirError;
#[cfg(test)]
pub(super) use opening::{FILE, FORMAT, FORMAT_KEY, FORMAT_VERSION, FRESH, RECORDS};
pub use store::DiskStore;
