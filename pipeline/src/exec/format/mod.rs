//! Files being read: what their bytes are, one format a file, behind one trait. Which parameters a format has is
//! `graph::format`'s.
//!
//! - `reader`: the trait, and what a reader yields or fails with;
//! - `read`: the operation, which goes from file to file with a reader for each;
//! - `open`: which reader a format has.

#[cfg(feature = "saved")]
mod elements;
#[cfg(feature = "records")]
mod fixed_length;
mod lines;
mod open;
mod path;
mod read;
mod reader;
#[cfg(feature = "webdataset")]
mod tar;
mod text_lines;
#[cfg(feature = "records")]
mod tfrecord;
#[cfg(feature = "webdataset")]
mod webdataset;

pub(super) use open::{missing_feature, reading};
