//! A reader of the files in a tar stream, from front to back, with the offset of each file. Truncated and
//! corrupt archives are errors that state the byte offset of the fault. A size that an archive states is
//! trusted only as far as bytes exist.

use std::io::{self, Read};

use bytes::Bytes;
use tar::Header;

use crate::exec::error::ErrorKind;
use crate::storage::blame;

/// Maximum bytes of one file in an archive.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of a long name or of extended attributes.
const NAME_BYTES_MAX: u64 = 1 << 16;
/// Maximum bytes that are allocated before the first of them is read.
const FIRST_ALLOCATION_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: usize = 512;
const SPARSE: &str = "has a sparse file, which is not supported: pack it without holes";

/// A file in an archive whose data has not been read yet.
#[derive(Debug)]
pub(crate) struct TarEntry {
    pub(crate) path: String,
    /// The offset of the file's header.
    pub(crate) offset_bytes: u64,
    pub(crate) size_bytes: u64,
}

/// The reason and the place at which an archive cannot be read further.
#[derive(Debug)]
pub(crate) struct TarError {
    /// The party to blame: the data, unless the bytes cannot be read at all.
    pub(crate) kind: ErrorKind,
    pub(crate) offset_bytes: u64,
    pub(crate) reason: String,
}

impl TarError {
    fn damage(offset_bytes: u64, reason: String) -> TarError {
        TarError {
            kind: ErrorKind::Data,
            offset_bytes,
            reason,
        }
    }

    fn unreadable(offset_bytes: u64, error: &io::Error) -> TarError {
        TarError {
            kind: blame(error),
            offset_bytes,
            reason: format!("cannot be read: {error}"),
        }
    }
}

/// A reader of an archive. After [`TarReader::entry`], the caller must call exactly one of
/// [`TarReader::data`] and [`TarReader::pass_over`].
pub(crate) struct TarReader<R> {
    reader: R,
    offset_bytes: u64,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(reader: R) -> TarReader<R> {
        TarReader {
            reader,
            offset_bytes: 0,
        }
    }

    /// Returns the next regular file, or `None` at the end of the archive.
    pub(crate) fn entry(&mut self) -> Result<Option<TarEntry>, TarError> {
        let mut long_name: Option<String> = None;
        let mut long_size: Option<u64> = None;
        loop {
            let offset_bytes = self.offset_bytes;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let fail = |reason: String| TarError::damage(offset_bytes, reason);
            let size = header
                .entry_size()
                .map_err(|error| fail(format!("has a corrupt header: {error}")))?;
            let kind = header.entry_type();
            if kind.is_gnu_longname() {
                let name = self.small(size)?;
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                long_name = Some(text(&name[..end]).map_err(fail)?);
            } else if kind.is_pax_local_extensions() {
                let attributes = self.small(size)?;
                for (key, value) in attributes_of(&attributes).map_err(fail)? {
                    match key {
                        "path" => long_name = Some(value.to_owned()),
                        "size" => long_size = Some(value.parse().map_err(|_| fail(garbled_size(value)))?),
                        key if key.starts_with("GNU.sparse.") => return Err(fail(SPARSE.to_owned())),
                        _ => {}
                    }
                }
            } else if kind.is_file() || kind.is_contiguous() {
                let path = match long_name {
                    Some(name) => name,
                    None => text(&header.path_bytes()).map_err(fail)?,
                };
                let size_bytes = long_size.unwrap_or(size);
                if size_bytes > FILE_BYTES_MAX {
                    let reason = format!(
                        "has the file {path:?} of {size_bytes} bytes, beyond the limit of {FILE_BYTES_MAX} bytes"
                    );
                    return Err(fail(reason));
                }
                return Ok(Some(TarEntry {
                    path,
                    offset_bytes,
                    size_bytes,
                }));
            } else if kind.is_gnu_sparse() {
                return Err(fail(SPARSE.to_owned()));
            } else {
                // The entry is a directory, a link, or an entry that only other programs use.
                (long_name, long_size) = (None, None);
                self.skip(size)?;
            }
        }
    }

    /// Returns the data of the file whose entry was read last.
    pub(crate) fn data(&mut self, entry: &TarEntry) -> Result<Bytes, TarError> {
        self.read(entry.size_bytes).map(Bytes::from)
    }

    /// Skips the data of the file whose entry was read last.
    pub(crate) fn pass_over(&mut self, entry: &TarEntry) -> Result<(), TarError> {
        self.skip(entry.size_bytes)
    }

    /// Returns the next header, or `None` at the mark of the archive's end.
    fn header(&mut self) -> Result<Option<Header>, TarError> {
        let offset_bytes = self.offset_bytes;
        let fail = |reason: &str| TarError::damage(offset_bytes, reason.to_owned());
        let mut header = Header::new_old();
        let block: &mut [u8; BLOCK_BYTES] = header.as_mut_bytes();
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => {
                    return Err(fail("has no end mark: it is truncated"));
                }
                Ok(0) => return Err(fail("is truncated within a header")),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TarError::unreadable(offset_bytes, &error)),
            }
        }
        self.offset_bytes += BLOCK_BYTES as u64;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        // The checksum counts the eight bytes of its own field, 148 to 155, as spaces.
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                if (148..156).contains(&at) {
                    32
                } else {
                    u32::from(*byte)
                }
            })
            .sum();
        match header.cksum() {
            Ok(expected) if expected == sum => Ok(Some(header)),
            Ok(_) | Err(_) => Err(fail("has a corrupt header: the checksum does not match")),
        }
    }

    fn small(&mut self, size_bytes: u64) -> Result<Vec<u8>, TarError> {
        if size_bytes > NAME_BYTES_MAX {
            let reason =
                format!("has a name of {size_bytes} bytes, beyond the limit of {NAME_BYTES_MAX} bytes");
            return Err(TarError::damage(self.offset_bytes, reason));
        }
        self.read(size_bytes)
    }

    /// Reads data, and skips the padding up to the next block.
    fn read(&mut self, size_bytes: u64) -> Result<Vec<u8>, TarError> {
        let mut data = Vec::with_capacity(size_bytes.min(FIRST_ALLOCATION_BYTES) as usize);
        let read = self.reader.by_ref().take(size_bytes).read_to_end(&mut data);
        self.advanced(read.map(|count| count as u64), size_bytes)?;
        self.discard(padding(size_bytes))?;
        Ok(data)
    }

    fn skip(&mut self, size_bytes: u64) -> Result<(), TarError> {
        self.discard(size_bytes.saturating_add(padding(size_bytes)))
    }

    fn discard(&mut self, size_bytes: u64) -> Result<(), TarError> {
        let read = io::copy(&mut self.reader.by_ref().take(size_bytes), &mut io::sink());
        self.advanced(read, size_bytes)
    }

    fn advanced(&mut self, read: io::Result<u64>, wanted: u64) -> Result<(), TarError> {
        let offset_bytes = self.offset_bytes;
        let count = read.map_err(|error| TarError::unreadable(offset_bytes, &error))?;
        self.offset_bytes += count;
        if count < wanted {
            let reason = format!("is truncated: {} bytes are missing", wanted - count);
            return Err(TarError::damage(self.offset_bytes, reason));
        }
        Ok(())
    }
}

/// Returns the number of bytes from the end of data to the next block.
fn padding(size_bytes: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    (block - size_bytes % block) % block
}

fn garbled_size(value: &str) -> String {
    let shown: String = value.chars().take(32).collect();
    format!("has corrupt extended attributes: expected a number as the size, found {shown:?}")
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        format!(
            "has a name that is not UTF-8: {:?}",
            String::from_utf8_lossy(bytes)
        )
    })
}

/// Parses the records `length key=value\n` of a pax header.
fn attributes_of(mut bytes: &[u8]) -> Result<Vec<(&str, &str)>, String> {
    let garbled = || "has corrupt extended attributes".to_owned();
    let mut attributes = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(garbled)?;
        let length = std::str::from_utf8(&bytes[..space])
            .ok()
            .and_then(|length| length.parse::<usize>().ok());
        let length = length
            .filter(|length| *length > space + 1 && *length <= bytes.len())
            .ok_or_else(garbled)?;
        let record = std::str::from_utf8(&bytes[space + 1..length - 1]).map_err(|_| garbled())?;
        attributes.push(record.split_once('=').ok_or_else(garbled)?);
        bytes = &bytes[length..];
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, data) in files {
            let mut header = Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *data).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<(String, u64, Bytes)>, TarError> {
        let mut reader = TarReader::new(bytes);
        let mut files = Vec::new();
        while let Some(entry) = reader.entry()? {
            let data = reader.data(&entry)?;
            files.push((entry.path, entry.offset_bytes, data));
        }
        Ok(files)
    }

    #[test]
    fn files_come_with_their_names_offsets_and_data() {
        let long = "d/".repeat(80) + "x.jpg";
        let files = read_all(&archive(&[
            ("a.jpg", b"12345"),
            (&long, &[7; 512]),
            ("empty.cls", b""),
        ]))
        .unwrap();
        assert_eq!(files[0], ("a.jpg".to_owned(), 0, Bytes::from_static(b"12345")));
        assert_eq!((files[1].0.as_str(), files[1].2.len()), (long.as_str(), 512));
        assert_eq!((files[2].0.as_str(), files[2].2.len()), ("empty.cls", 0));
    }

    /// Returns an archive with one file of 5 bytes after a pax header with the attributes `attributes`.
    fn with_attributes(attributes: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_pax_extensions(attributes.iter().copied()).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(5);
        header.set_mode(0o644);
        builder.append_data(&mut header, "a.jpg", &b"12345"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn extended_attributes_count_and_garbled_ones_fail() {
        let files = read_all(&with_attributes(&[("path", b"long.jpg"), ("size", b"5")])).unwrap();
        assert_eq!((files[0].0.as_str(), files[0].2.len()), ("long.jpg", 5));
        for size in [&b"five"[..], b"-1", b"", b"99999999999999999999"] {
            let error = read_all(&with_attributes(&[("size", size)])).unwrap_err();
            assert_eq!(
                (error.offset_bytes, error.reason.contains("size")),
                (0, true),
                "{}",
                error.reason
            );
        }
        for attribute in ["GNU.sparse.major", "GNU.sparse.map"] {
            let error = read_all(&with_attributes(&[(attribute, b"1")])).unwrap_err();
            assert!(error.reason.contains("sparse"), "{}", error.reason);
        }
    }

    #[test]
    fn a_garbled_header_names_its_offset() {
        let mut bytes = archive(&[("a.jpg", b"12345"), ("b.jpg", b"12345")]);
        bytes[1024] ^= 1;
        let error = read_all(&bytes).unwrap_err();
        assert_eq!(
            (error.offset_bytes, error.reason.contains("checksum")),
            (1024, true)
        );
    }

    proptest! {
        #[test]
        fn a_truncated_archive_is_an_error(cut in 0usize..2048) {
            let bytes = archive(&[("a.jpg", b"12345"), ("b.jpg", &[1; 500])]);
            let error = read_all(&bytes[..cut]).unwrap_err();
            prop_assert!(error.reason.contains("truncated"), "{}", error.reason);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048), at in 0usize..2048) {
            let _ = read_all(&bytes);
            let mut damaged = archive(&[("a.jpg", b"12345"), ("b.jpg", &[1; 500])]);
            let at = at % damaged.len();
            for (into, from) in damaged[at..].iter_mut().zip(&bytes) {
                *into = *from;
            }
            let _ = read_all(&damaged);
        }
    }
}
