//! The uncompressed bytes of a file.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use crate::graph::Compression;
use crate::storage::Object;

/// The size of the read buffer of a file, in bytes. The size is large enough for sequential reads of disks
/// and network file systems.
const BUFFER_BYTES: usize = 256 << 10;

/// A file that is decompressed while it is read.
pub(crate) enum Stream {
    /// A file without compression.
    Plain(BufReader<Object>),
    /// A file compressed with gzip. The decompressor is boxed because its tables are large.
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<Object>>>>),
    /// A file compressed with zlib.
    Zlib(Box<BufReader<ZlibDecoder<BufReader<Object>>>>),
}

impl Stream {
    /// Returns the uncompressed bytes of `file` from `offset_bytes` on. In a compressed file, the bytes
    /// before `offset_bytes` are decompressed and discarded.
    pub(crate) fn new(mut file: Object, compression: Compression, offset_bytes: u64) -> io::Result<Stream> {
        let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
        let mut stream = match compression {
            Compression::None => {
                file.seek(SeekFrom::Start(offset_bytes))?;
                return Ok(Stream::Plain(buffered(file)));
            }
            Compression::Gzip => Stream::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(buffered(file))))),
            Compression::Zlib => Stream::Zlib(Box::new(BufReader::new(ZlibDecoder::new(buffered(file))))),
        };
        io::copy(&mut stream.by_ref().take(offset_bytes), &mut io::sink())?;
        Ok(stream)
    }
}

impl Stream {
    /// Skips the next `bytes` bytes, or fewer at the end of the file.
    #[cfg(feature = "csv")]
    pub(crate) fn pass_over(&mut self, bytes: u64) -> io::Result<()> {
        match (self, i64::try_from(bytes)) {
            (Stream::Plain(reader), Ok(bytes)) => reader.seek_relative(bytes),
            (stream, _) => io::copy(&mut stream.by_ref().take(bytes), &mut io::sink()).map(|_| ()),
        }
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Stream::Plain(reader) => reader.fill_buf(),
            Stream::Gzip(reader) => reader.fill_buf(),
            Stream::Zlib(reader) => reader.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Stream::Plain(reader) => reader.consume(amount),
            Stream::Gzip(reader) => reader.consume(amount),
            Stream::Zlib(reader) => reader.consume(amount),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(reader) => reader.read(into),
            Stream::Gzip(reader) => reader.read(into),
            Stream::Zlib(reader) => reader.read(into),
        }
    }
}

/// Appends up to `wanted` bytes to `into`, and returns the number of bytes read.
pub(super) fn read_more(stream: &mut impl Read, into: &mut Vec<u8>, wanted: u64) -> io::Result<u64> {
    // At most 1 MiB is reserved before any bytes are read, because `wanted` may be wrong.
    into.reserve(wanted.min(1 << 20) as usize);
    stream.take(wanted).read_to_end(into).map(|read| read as u64)
}

/// Fills `into` until it is full or the stream ends, and returns the number of bytes read.
pub(super) fn fill(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the next `wanted` bytes, or fewer at the end of the file. Bytes that the buffer already holds are
/// copied only once.
pub(super) fn read_whole(stream: &mut impl BufRead, wanted: u64) -> io::Result<Vec<u8>> {
    let buffered = loop {
        match stream.fill_buf() {
            Ok(_) => break stream.fill_buf()?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    if let Ok(wanted) = usize::try_from(wanted)
        && let Some(whole) = buffered.get(..wanted)
    {
        let whole = whole.to_vec();
        stream.consume(wanted);
        return Ok(whole);
    }
    let mut bytes = Vec::new();
    read_more(stream, &mut bytes, wanted)?;
    Ok(bytes)
}
