//! A TFRecord file being written, compressed or not, that is there as a whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::{GzEncoder, ZlibEncoder};

use crate::graph::Compression;

use super::tfrecord::TfRecordWriter;
use super::whole_file::WholeFile;

/// Writes a TFRecord file. It has its name when it is finished; a writer that is dropped before leaves
/// nothing.
#[derive(Debug)]
pub struct TfRecordFileWriter {
    writer: TfRecordWriter<Compressor>,
}

/// A file whose bytes are compressed as they are written.
#[derive(Debug)]
enum Compressor {
    None(BufWriter<WholeFile>),
    Gzip(GzEncoder<BufWriter<WholeFile>>),
    Zlib(ZlibEncoder<BufWriter<WholeFile>>),
}

impl TfRecordFileWriter {
    /// Begins the file at `path`, which replaces one that is there when it is finished.
    ///
    /// # Errors
    /// What creating a file beside `path` fails with.
    pub fn create(path: impl AsRef<Path>, compression: Compression) -> io::Result<TfRecordFileWriter> {
        let file = BufWriter::new(WholeFile::create(path.as_ref())?);
        let level = flate2::Compression::default();
        let writer = TfRecordWriter::new(match compression {
            Compression::None => Compressor::None(file),
            Compression::Gzip => Compressor::Gzip(GzEncoder::new(file, level)),
            Compression::Zlib => Compressor::Zlib(ZlibEncoder::new(file, level)),
        });
        Ok(TfRecordFileWriter { writer })
    }

    /// Appends a record of any bytes.
    ///
    /// # Errors
    /// As [`TfRecordWriter::write`].
    pub fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.writer.write(record)
    }

    /// Puts the file in its place, once the disk has its bytes.
    ///
    /// # Errors
    /// What the file system fails with; then the file is not there.
    pub fn finish(self) -> io::Result<()> {
        let file = match self.writer.finish()? {
            Compressor::None(file) => file,
            Compressor::Gzip(encoder) => encoder.finish()?,
            Compressor::Zlib(encoder) => encoder.finish()?,
        };
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .finish()
    }
}

impl Write for Compressor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressor::None(writer) => writer.write(bytes),
            Compressor::Gzip(writer) => writer.write(bytes),
            Compressor::Zlib(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressor::None(writer) => writer.flush(),
            Compressor::Gzip(writer) => writer.flush(),
            Compressor::Zlib(writer) => writer.flush(),
        }
    }
}
