//! Where the bytes of files come from: this machine's file systems.
//!
//! - [`Storage`] opens files and lists patterns; every operation that reads files is given one;
//! - [`Object`] is an open file: [`Read`](std::io::Read), [`Seek`](std::io::Seek), and reads at a position;
//! - [`StorageError`] says which file, which bytes of it, why, and who is to blame.
//!
//! Refuses to know what is in a file.

mod error;
mod handle;
mod local;
mod object;

pub use error::StorageError;
pub use handle::{FILES_MAX, Listed, Storage};
pub use object::Object;

pub(crate) use error::blame;
