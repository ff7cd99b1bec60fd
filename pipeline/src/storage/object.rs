//! An open file, on this machine or in a store.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::local::LocalFile;
#[cfg(feature = "storage")]
use super::remote::RemoteFile;

/// An open file, on this machine or in a store.
///
/// The bytes of a store's object are fetched in blocks, and prefetched for a sequential reader. If a store's
/// object changes after it was opened, reading fails.
///
/// [`Read`] and [`Seek`] use a position, which begins at 0; [`Object::read_at`] uses no position. Small reads
/// should be buffered.
///
/// A clone reads the same file at its own position. A pipe is an exception: all its clones share one
/// position.
#[derive(Clone)]
pub struct Object {
    path: Arc<str>,
    source: Source,
    position: u64,
}

/// The source of the bytes.
#[derive(Clone)]
enum Source {
    Local(LocalFile),
    #[cfg(feature = "storage")]
    Remote(RemoteFile),
}

impl Object {
    pub(super) fn local(path: &str, file: LocalFile) -> Object {
        Object {
            path: Arc::from(path),
            source: Source::Local(file),
            position: 0,
        }
    }

    #[cfg(feature = "storage")]
    pub(super) fn remote(shown: &Arc<str>, file: RemoteFile) -> Object {
        Object {
            path: Arc::clone(shown),
            source: Source::Remote(file),
            position: 0,
        }
    }

    /// Returns the path by which the object was opened, without the text after a URL's `?`, which may be a
    /// signature.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the length of the file in bytes when it was opened; 0 for pipes and devices.
    #[expect(clippy::len_without_is_empty, reason = "a pipe of 0 bytes is not empty")]
    pub fn len(&self) -> u64 {
        match &self.source {
            Source::Local(file) => file.len(),
            #[cfg(feature = "storage")]
            Source::Remote(file) => file.len(),
        }
    }

    /// Returns the underlying file, if it is a regular file of this machine, which can be mapped into memory.
    pub fn local_file(&self) -> Option<&File> {
        match &self.source {
            Source::Local(file) => file.mappable(),
            #[cfg(feature = "storage")]
            Source::Remote(_) => None,
        }
    }

    /// Reads bytes at `offset` into `into`, and returns the number of bytes read; 0 at the end of the file.
    /// Blocks.
    ///
    /// # Errors
    /// The error of the read. An error of storage contains a [`StorageError`](super::StorageError).
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::Local(file) => file.read_at(offset, into),
            #[cfg(feature = "storage")]
            Source::Remote(file) => Ok(file.read_at(offset, into)?),
        }
    }

    /// Returns the `length` bytes at `offset`. Memory for all of them is allocated first, so `length` must
    /// not exceed the file. Blocks.
    ///
    /// # Errors
    /// The errors of [`Object::read_exact_at`].
    #[cfg(feature = "arrow")]
    pub(crate) fn read_vec_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match &self.source {
            Source::Local(file) => file.read_vec_at(offset, length),
            #[cfg(feature = "storage")]
            Source::Remote(_) => {
                let mut bytes = vec![0; length];
                self.read_exact_at(offset, &mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// Fills `into` with the bytes at `offset`. Blocks.
    ///
    /// # Errors
    /// The errors of [`Object::read_at`], and an error of the kind `UnexpectedEof` if the file ends before
    /// `into` is full.
    pub fn read_exact_at(&self, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_at(offset, into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    into = &mut into[read..];
                    offset = offset.saturating_add(read as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Object {
    /// Returns the target of a seek in a file with positions; `None` if the target is before the start.
    fn target(&self, to: SeekFrom) -> Option<u64> {
        match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
        }
    }
}

impl Read for Object {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.source {
            Source::Local(file) => file.read(self.position, into)?,
            #[cfg(feature = "storage")]
            Source::Remote(file) => file.read(self.position, into)?,
        };
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}

impl Seek for Object {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match &self.source {
            Source::Local(file) if !file.has_positions() => Some(file.seek(to)?),
            #[cfg(feature = "storage")]
            Source::Remote(_) => self.target(to),
            Source::Local(_) => self.target(to),
        };
        let before = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot seek to a position before the start of the file",
            )
        };
        self.position = target.ok_or_else(before)?;
        Ok(self.position)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
