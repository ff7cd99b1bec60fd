//! Files as datasets: one operation for every format, whose parameters are here, one format a file. How their bytes are
//! read is `exec::format`'s.
//!
//! - [`Format`]: which format it is, and what the graph asks of all of them;
//! - [`TfRecord`], [`FixedLength`]: records, with their [`Compression`];
//! - [`WebDataset`]: tar shards;
//! - [`Elements`]: elements that were saved.

mod builder;
mod elements;
mod family;
mod records;
mod webdataset;

pub use elements::Elements;
pub use family::Format;
pub use records::{Compression, FixedLength, RECORD_BYTES_MAX, TfRecord};
pub use webdataset::{KEY_COMPONENT, WebDataset};
