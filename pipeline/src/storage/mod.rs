//! Access to the bytes of files: on this machine's file systems, in object stores and on HTTP servers.
//!
//! - [`Storage`] opens files and lists patterns; every operation that reads files receives a `Storage`.
//! - [`Object`] is an open file: [`Read`](std::io::Read), [`Seek`](std::io::Seek), and reads at a position.
//! - [`FileVersion`] shows that a file was changed after it was listed.
//! - [`StorageError`] names the file, the byte range, the reason and the party to blame.
//! - `access` decides which files may be read.
//! - [`StorageConfig`] holds the settings; with the feature `storage`, `remote` makes the requests and
//!   `cache` keeps blocks on a local disk.
//!
//! Refuses to know the content of files.

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
mod shown;
mod version;

pub use config::{CacheConfig, StorageConfig};
pub use error::StorageError;
pub use handle::Storage;
pub use listed::{FILES_MAX, Listed};
pub use object::Object;
pub use shown::without_secrets;
pub use version::{FILE_VERSION_BYTES, FileVersion};

pub(crate) use error::blame;
