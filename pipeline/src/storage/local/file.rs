//! Open files of this machine.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::exec::ErrorKind;
use crate::storage::error::StorageError;
use crate::storage::version::FileVersion;

/// The error numbers `ENFILE` and `EMFILE`, which are the same on every Unix.
const TOO_MANY_OPEN: [i32; 2] = [23, 24];
/// The kinds of errors that the caller causes: an invalid path, or missing rights.
const OF_CALLER: [io::ErrorKind; 3] = [
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidFilename,
];

/// An open file of this machine: a regular file, a pipe or a device.
#[derive(Debug, Clone)]
pub(in crate::storage) struct LocalFile {
    file: Arc<File>,
    /// The length of the file in bytes when it was opened.
    size_bytes: u64,
    version: FileVersion,
    /// `true` for a regular file, which can be read at any position.
    is_regular: bool,
}

/// Opens the file at `path`.
pub(in crate::storage) fn open(path: &str) -> Result<LocalFile, StorageError> {
    let failed = |error: io::Error| StorageError::open(to_blame(&error), path, error.to_string());
    let file = File::open(path).map_err(failed)?;
    opened(file).map_err(failed)
}

/// Returns the party to blame for a file that cannot be opened. Only faults of the data may be skipped, so
/// every other fault needs its own kind.
fn to_blame(error: &io::Error) -> ErrorKind {
    let is_one_of = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    let is_limit = error
        .raw_os_error()
        .is_some_and(|number| TOO_MANY_OPEN.contains(&number));
    if is_one_of(&[io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]) {
        ErrorKind::NotFound
    } else if is_one_of(&OF_CALLER) {
        ErrorKind::Caller
    } else if is_limit || error.kind() == io::ErrorKind::OutOfMemory {
        ErrorKind::Resource
    } else {
        ErrorKind::Data
    }
}

/// Wraps a file that was fetched from `path` into a local file.
#[cfg(feature = "storage")]
pub(in crate::storage) fn whole(path: &str, file: File) -> Result<LocalFile, StorageError> {
    opened(file).map_err(|error| StorageError::open(ErrorKind::Resource, path, error.to_string()))
}

fn opened(file: File) -> io::Result<LocalFile> {
    let metadata = file.metadata()?;
    Ok(LocalFile {
        file: Arc::new(file),
        size_bytes: metadata.len(),
        version: FileVersion::of_local(&metadata),
        is_regular: metadata.is_file(),
    })
}

impl LocalFile {
    pub(in crate::storage) fn len(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the version of the file when it was opened.
    pub(in crate::storage) fn version(&self) -> FileVersion {
        self.version
    }

    pub(in crate::storage) fn mappable(&self) -> Option<&File> {
        self.is_regular.then_some(&*self.file)
    }

    /// Returns whether the file can be read at any position; a pipe cannot.
    pub(in crate::storage) fn has_positions(&self) -> bool {
        self.is_regular
    }

    pub(in crate::storage) fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    /// Returns the `length` bytes at `offset`. The memory is not cleared before the bytes are read into it.
    #[cfg(feature = "arrow")]
    pub(in crate::storage) fn read_vec_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset.saturating_add(bytes.len() as u64);
            match rustix::io::pread(&*self.file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The allocator may have reserved more memory than requested, and the loop fills all of it.
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Reads the bytes at `position`, or the next bytes of a file without positions.
    pub(in crate::storage) fn read(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.is_regular {
            self.file.read_at(into, position)
        } else {
            (&*self.file).read(into)
        }
    }

    pub(in crate::storage) fn seek(&self, to: SeekFrom) -> io::Result<u64> {
        (&*self.file).seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_resources_does_not_blame_data() {
        let blamed = |number| to_blame(&io::Error::from_raw_os_error(number));
        for (number, kind) in [
            (2, ErrorKind::NotFound),
            (13, ErrorKind::Caller),
            (12, ErrorKind::Resource),
            (23, ErrorKind::Resource),
            (24, ErrorKind::Resource),
            (5, ErrorKind::Data),
        ] {
            assert_eq!(blamed(number), kind, "error {number} of the system");
        }
        assert_eq!(open("a\0b").unwrap_err().kind(), ErrorKind::Caller);
        assert_eq!(open("/nowhere/at/all").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(open("/dev/null/below").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
