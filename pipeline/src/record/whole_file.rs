//! A file that is there as a whole or not at all: written beside its place, and moved there when it is
//! finished.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that this process has begun: their number makes names that no two of them share.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A file being written, which nobody sees under its name before [`WholeFile::finish`]. Dropped before that,
/// it is gone.
#[derive(Debug)]
pub(super) struct WholeFile {
    file: File,
    /// Temporary file that is written.
    beside: PathBuf,
    path: PathBuf,
    is_finished: bool,
}

impl WholeFile {
    /// Begins the file at `path`, which replaces one that is there when it is finished.
    pub(super) fn create(path: &Path) -> io::Result<WholeFile> {
        let Some(name) = path.file_name() else {
            let reason = format!("{} is the path of no file", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        // Relaxed: a number that orders nothing else.
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.unfinished", process::id()));
        let beside = path.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        Ok(WholeFile {
            file,
            beside,
            path: path.to_owned(),
            is_finished: false,
        })
    }

    /// Puts the file in its place, once the disk has its bytes.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.beside, &self.path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed stays, under a name that no listing of records asks for.
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}
