//! Files being read: what their bytes are, one format a file, behind one trait. Which parameters a format has
//! is `graph::format`'s.
//!
//! - `reader`: the trait, and what a reader yields or fails with;
//! - `read`: the operation, which goes from file to file with a reader for each;
//! - `open`: which reader a format has;
//! - `room`: bytes that a thread may read ahead;
//! - `feature`: which feature of the build it needs;
//! - `describe`: what files hold, where a dataset does not say.

#[cfg(any(feature = "arrow", feature = "mds", feature = "numpy"))]
mod columns;
#[cfg(feature = "csv")]
mod csv;
mod describe;
#[cfg(feature = "saved")]
mod elements;
mod feature;
#[cfg(feature = "records")]
mod fixed_length;
mod image_folder;
#[cfg(feature = "json")]
mod json_lines;
mod lines;
#[cfg(feature = "mds")]
mod mds;
#[cfg(feature = "numpy")]
mod numpy;
mod open;
#[cfg(any(
    feature = "arrow",
    feature = "csv",
    feature = "json",
    feature = "mds",
    feature = "numpy",
    feature = "sqlite"
))]
mod parse;
mod path;
mod read;
mod reader;
#[cfg(feature = "sqlite")]
mod room;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "arrow")]
mod tables;
#[cfg(feature = "webdataset")]
mod tar;
mod text_lines;
#[cfg(feature = "records")]
mod tfrecord;
#[cfg(feature = "webdataset")]
mod webdataset;

pub(crate) use describe::described;
pub(crate) use feature::missing_feature;
#[cfg(feature = "mds")]
pub(crate) use mds::shards;
pub(crate) use open::reading;
