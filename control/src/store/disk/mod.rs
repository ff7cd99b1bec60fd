//! Records in a file: they survive the process and the machine's sudden end.
//!
//! | file | what it owns |
//! |---|---|
//! | `store` | changes in, records out |
//! | `opening` | the work directory, the lock on it, a store file that is complete and undamaged |
//! | `error` | why a work directory cannot be used |

mod error;
mod opening;
mod store;

pub use error::WorkDirError;
#[cfg(test)]
pub(super) use opening::{FILE, FORMAT, FORMAT_KEY, FORMAT_VERSION, FRESH, RECORDS};
pub use store::DiskStore;
