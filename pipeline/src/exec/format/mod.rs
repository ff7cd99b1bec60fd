//! Readers of files: one format in each file, behind one trait. `graph::format` defines the parameters of the
//! formats.
//!
//! - `reader`: the trait of readers, with their records and errors;
//! - `read`: the operation that reads files one after the other, with a reader for each file;
//! - `open`: the choice of the reader for a format;
//! - `room`: a limit on the bytes that a thread reads ahead;
//! - `feature`: the feature of the build that a format needs;
//! - `describe`: the spec of files whose columns the dataset does not declare.

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
