//! Record files: the encoding of records in them, with or without compression. The module knows bytes and
//! offsets, but neither graphs nor elements.
//!
//! - [`TfRecordWriter`] writes TFRecord files, and `TfRecordReader` reads them.
//! - [`TfRecordFileWriter`] and `WebDatasetWriter` write files that appear under their name when they are
//!   complete.
//! - `FixedLengthReader` reads files of records of one length.
//! - `Stream` decompresses a file.

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
