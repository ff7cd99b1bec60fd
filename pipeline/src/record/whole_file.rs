//! A file that appears at its path only when it is complete: the writer writes a temporary file and renames
//! it at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of files that this process has begun, which makes the names of temporary files unique.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A file that is being written. The file appears at its path with [`WholeFile::finish`]. If the writer is
/// dropped earlier, the file is removed.
#[derive(Debug)]
pub(super) struct WholeFile {
    file: File,
    /// The path of the temporary file, next to the final path.
    beside: PathBuf,
    path: PathBuf,
    is_finished: bool,
}

impl WholeFile {
    /// Begins the file at `path`. An existing file is replaced when the new file is finished.
    pub(super) fn create(path: &Path) -> io::Result<WholeFile> {
        let Some(name) = path.file_name() else {
            let reason = format!("the path {} does not name a file", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        // `Relaxed` ordering suffices, because the counter does not order other memory accesses.
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

    /// Syncs the file to the disk, and moves it to its path.
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
            // A file that cannot be removed stays under a hidden name, which patterns of record files do not
            // match.
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}
