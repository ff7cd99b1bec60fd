//! The records in a `redb` database: one transaction for each group of changes, all records in one table.
//!
//! Each commit has two phases, which distinguishes a reported commit from a torn one. Damage to a reported
//! commit is refused. If damage counted as a crash, a reported commit could be lost.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use redb::{Database, ReadableDatabase, ReadableTable};

use super::error::WorkDirError;
use super::opening::{self, FILE, RECORDS};
use crate::dispatcher::{Change, Record};
use crate::store::{Store, StoreError};

/// A store in a work directory.
pub struct DiskStore {
    /// The open database, which is closed before the lock is released. `None` after a failure: the database
    /// must be opened again before its next use.
    database: Option<Database>,
    file: PathBuf,
    /// The device and inode number of the file, by which a replaced file is detected.
    identity: (u64, u64),
    _lock: File,
}

impl DiskStore {
    /// Opens the store in this directory, and creates the directory and the store if they do not exist.
    /// Reads the whole file, which may take a while.
    ///
    /// # Errors
    /// [`WorkDirError`]: the directory cannot be used, or another dispatcher uses it. The file in it is not
    /// a store, has a later format, or is damaged.
    pub fn open(folder: &Path) -> Result<DiskStore, WorkDirError> {
        let (database, lock) = opening::open(folder)?;
        let file = folder.join(FILE);
        let identity = identity(&file).map_err(WorkDirError::inaccessible(&file))?;
        Ok(DiskStore {
            database: Some(database),
            file,
            identity,
            _lock: lock,
        })
    }

    /// Returns the database, opened again if the latest commit failed.
    fn database(&mut self) -> Result<&Database, CommitError> {
        let found = identity(&self.file);
        if found.as_ref().ok() != Some(&self.identity) {
            return Err(CommitError::Gone);
        }
        let database = match self.database.take() {
            Some(database) => database,
            None => opening::reopen(&self.file)?,
        };
        Ok(self.database.insert(database))
    }

    fn read(&self) -> Result<Vec<Record>, WorkDirError> {
        let damaged = |error: redb::Error| WorkDirError::of_database(&self.file, error);
        let database = self.database.as_ref();
        let closed = || WorkDirError::damaged(&self.file, "an earlier write failed");
        let read = database.ok_or_else(closed)?.begin_read();
        let read = read.map_err(|error| damaged(error.into()))?;
        let table = read.open_table(RECORDS).map_err(|error| damaged(error.into()))?;
        let mut records = Vec::new();
        for entry in table.iter().map_err(|error| damaged(error.into()))? {
            let (key, bytes) = entry.map_err(|error| damaged(error.into()))?;
            let record = Record::from_bytes(bytes.value())
                .map_err(|error| WorkDirError::damaged(&self.file, error.to_string()))?;
            if record.key().to_bytes() != key.value() {
                return Err(WorkDirError::damaged(
                    &self.file,
                    format!("{:?} is stored under another record's key", record.key()),
                ));
            }
            records.push(record);
        }
        // Without the dispatcher's own record, ids would be assigned twice.
        if !records.is_empty() && !records.iter().any(|record| matches!(record, Record::Meta(_))) {
            return Err(WorkDirError::damaged(
                &self.file,
                "it has no record of which ids come next",
            ));
        }
        Ok(records)
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), CommitError> {
        let database = self.database()?;
        let written = put(database, changes);
        if written.is_err() {
            // After an error of its file, a database accepts no further transaction.
            self.database = None;
        }
        Ok(written?)
    }
}

/// The reason for which a commit failed.
#[derive(Debug, thiserror::Error)]
enum CommitError {
    #[error(
        "the file was removed or replaced while the dispatcher ran: put the file back and start the \
         dispatcher again, which otherwise starts with an empty store"
    )]
    Gone,
    #[error("{0}: check its disk and start the dispatcher again, which continues from all answered requests")]
    Database(#[from] redb::Error),
}

impl CommitError {
    fn is_for_want_of_room(&self) -> bool {
        let wants = [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::FileTooLarge,
        ];
        matches!(self, CommitError::Database(redb::Error::Io(error)) if wants.contains(&error.kind()))
    }
}

/// Writes the changes in one transaction.
fn put(database: &Database, changes: &[Change]) -> Result<(), redb::Error> {
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    {
        let mut table = write.open_table(RECORDS)?;
        for change in changes {
            match change {
                Change::Put(record) => {
                    table.insert(record.key().to_bytes().as_slice(), record.to_bytes().as_slice())?;
                }
                Change::Delete(key) => {
                    table.remove(key.to_bytes().as_slice())?;
                }
            }
        }
    }
    write.commit()?;
    Ok(())
}

/// Returns the device and inode number of a file.
fn identity(file: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(file)?;
    Ok((found.dev(), found.ino()))
}

impl Store for DiskStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        opening::guarded(&self.file, || self.read()).map_err(|error| StoreError::Failed(error.to_string()))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.write(changes).map_err(|error| {
            let file = self.file.display();
            if let (true, CommitError::Database(reason)) = (error.is_for_want_of_room(), &error) {
                return StoreError::Full(format!("{file}: {reason}"));
            }
            StoreError::Failed(format!("{file}: {error}"))
        })
    }

    fn is_volatile(&self) -> bool {
        false
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskStore({})", self.file.display())
    }
}
