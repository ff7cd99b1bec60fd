//! Sources of files' bytes: this machine's file systems, the clouds' stores, HTTP servers.
//!
//! - [`Storage`] opens files and lists patterns; every operation that reads files is given one;
//! - [`Object`] is an open file: [`Read`](std::io::Read), [`Seek`](std::io::Seek), and reads at a position;
//! - [`StorageError`] says which file, which bytes of it, why, and who is to blame;
//! - `access` says which files may be read;
//! - [`StorageConfig`] holds the settings; with the feature `storage`, `remote` makes the requests and
//!   `cache` keeps what came.
//!
//! Refuses to know what is in a file.

mod access;
#[cfg(feature = "storage")]
mod cache;
mod config;
mod error;
mod handle;
mod listed;
mod local;
mod location;
mod object;
#[cfg(feature = "storage")]
mod remote;

pub use config::{CacheConfig, StorageConfig};
pub use error::StorageError;
pub use handle::Storage;
pub use listed::{FILES_MAX, Listed};
pub use object::Object;

pub(crate) use error::blame;
