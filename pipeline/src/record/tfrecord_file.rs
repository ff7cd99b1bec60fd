//! A writer of a TFRecord file, compressed or not, which appears under its name only when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::{GzEncoder, ZlibEncoder};

use crate::graph::Compression;

use super::tfrecord::TfRecordWriter;
use super::whole_file::WholeFile;

/// A writer of a TFRecord file. The file gets its name when it is finished; a writer that is dropped earlier
/// leaves no file.
#[derive(Debug)]
pub struct TfRecordFileWriter {
    writer: TfRecordWriter<Compressor>,
}

/// A file that is compressed while it is written.
#[derive(Debug)]
enum Compressor {
    None(BufWriter<WholeFile>),
    Gzip(GzEncoder<BufWriter<WholeFile>>),
    Zlib(ZlibEncoder<BufWriter<WholeFile>>),
}

impl TfRecordFileWriter {
    /// Begins the file at `path`. An existing file is replaced when the new file is finished.
    ///
    /// # Errors
    /// The error of creating a temporary file next to `path`.
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
    /// The errors of [`TfRecordWriter::write`].
    pub fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.writer.write(record)
    }

    /// Syncs the file to the disk, and moves it to its path.
    ///
    /// # Errors
    /// The error of the file system; the file does not appear at its path then.
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
