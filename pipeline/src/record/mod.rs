//! Record files: how records lie in them, compressed or not. Knows bytes and offsets, neither graphs nor elements.
//!
//! - [`TfRecordWriter`] writes TFRecord files, `TfRecordReader` is its twin;
//! - `FixedLengthReader` reads files of records of one length;
//! - `Stream` undoes the compression.

mod error;
mod fixed_length;
mod stream;
mod tfrecord;

pub use tfrecord::TfRecordWriter;

pub(crate) use error::RecordError;
pub(crate) use fixed_length::{FixedLengthReader, check_size};
pub(crate) use stream::Stream;
pub(crate) use tfrecord::TfRecordReader;
