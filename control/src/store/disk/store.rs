//! Records in a `redb` database: one transaction for each group of changes, all records in one table.
//!
//! Each commit is in two phases, so that a commit that was reported is told from one that was torn: damage is refused
//! instead of being taken for a crash, which would lose what was reported.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable};

use super::error::WorkDirError;
use super::opening::{self, FILE, RECORDS};
use crate::dispatcher::{Change, Record};
use crate::store::{Store, StoreError};

/// Records in a work directory.
pub struct DiskStore {
    // Closed before the lock is given up.
    database: Database,
    file: PathBuf,
    _lock: File,
}

impl DiskStore {
    /// The store in this directory; both are made if they are not there. Reads the whole file, and so may take a while.
    ///
    /// # Errors
    /// [`WorkDirError`]: the directory cannot be used, another dispatcher works in it, or what is in it is not a store, not
    /// of this version, or damaged.
    pub fn open(folder: &Path) -> Result<DiskStore, WorkDirError> {
        let (database, lock) = opening::open(folder)?;
        Ok(DiskStore {
            database,
            file: folder.join(FILE),
            _lock: lock,
        })
    }

    fn read(&self) -> Result<Vec<Record>, WorkDirError> {
        let damaged = |error: redb::Error| WorkDirError::of_database(&self.file, error);
        let read = self
            .database
            .begin_read()
            .map_err(|error| damaged(error.into()))?;
        let table = read.open_table(RECORDS).map_err(|error| damaged(error.into()))?;
        let mut records = Vec::new();
        for entry in table.iter().map_err(|error| damaged(error.into()))? {
            let (key, bytes) = entry.map_err(|error| damaged(error.into()))?;
            let record = Record::from_bytes(bytes.value())
                .map_err(|error| WorkDirError::damaged(&self.file, error.to_string()))?;
            if record.key().to_bytes() != key.value() {
                return Err(WorkDirError::damaged(
                    &self.file,
                    format!("{:?} lies under another record's key", record.key()),
                ));
            }
            records.push(record);
        }
        // Without it ids would be given out twice.
        if !records.is_empty() && !records.iter().any(|record| matches!(record, Record::Meta(_))) {
            return Err(WorkDirError::damaged(
                &self.file,
                "it does not say which ids come next",
            ));
        }
        Ok(records)
    }

    fn write(&self, changes: Vec<Change>) -> Result<(), redb::Error> {
        let mut write = self.database.begin_write()?;
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
}

impl Store for DiskStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        opening::guarded(&self.file, || self.read()).map_err(|error| StoreError(error.to_string()))
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.write(changes).map_err(|error| {
            StoreError(format!(
                "{}: {error}: see to its disk and start the dispatcher again, which goes on from all that it has answered",
                self.file.display()
            ))
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
