//! Record files: how records lie in them, compressed or not. Knows bytes and offsets, neither graphs nor
//! elements.
//!
//! - [`TfRecordWriter`] writes TFRecord files, `TfRecordReader` is its twin;
//! - [`TfRecordFileWriter`] and `WebDatasetWriter` write whole files, which are there when they are finished;
//! - `FixedLengthReader` reads files of records of one length;
//! - `Stream` undoes the compression.

mod error;
mod fixed_length;
mod stream;
mod tfrecord;
mod tfrecord_file;
#[cfg(feature = "webdataset")]
mod webdataset;
mod whole_file;

pub use tfrecord::TfRecordWriter;
pub use tfrecord_file::TfRecordFileWriter;
#[cfg(feature = "webdataset")]
pub use webdataset::WebDatasetWriter;

pub(crate) use error::RecordError;
pub(crate) use fixed_length::{FixedLengthReader, check_size};
pub(crate) use stream::Stream;
pub(crate) use tfrecord::TfRecordReader;
