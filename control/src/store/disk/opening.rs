//! The opening of a work directory: the directory, its lock, and a store file that is complete and
//! undamaged.
//!
//! A store file appears under its name only when it is complete. The whole file is read and checked before
//! any record in it is used.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError};

use super::error::WorkDirError;

/// The name of the store file.
pub(in crate::store) const FILE: &str = "dispatcher.redb";
/// The name of a store file while it is being created. A file of this name at a start is unfinished.
pub(in crate::store) const FRESH: &str = "dispatcher.redb.new";
/// The name of the lock file, which a running dispatcher keeps locked.
const LOCK: &str = "dispatcher.lock";
/// The first bytes of every file of the database.
const MAGIC: &[u8] = b"redb";

/// The table that holds the version of the records' format.
pub(in crate::store) const FORMAT: TableDefinition<'static, &str, u64> =
    TableDefinition::new("millstream dispatcher");
pub(in crate::store) const FORMAT_KEY: &str = "format";
/// The version of the records' format. A record is stored
/// as [`Record::to_bytes`](crate::dispatcher::Record::to_bytes)
/// under [`Key::to_bytes`](crate::dispatcher::Key::to_bytes). New kinds and fields do not change the
/// version.
pub(in crate::store) const FORMAT_VERSION: u64 = 1;
pub(in crate::store) const RECORDS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

/// The memory for the file's pages. The cache is small, because the dispatcher holds every record in its
/// own memory and reads the file once.
const CACHE_BYTES: usize = 32 << 20;
/// The size below which a file is never worth compacting.
const SLACK_BYTES: u64 = 8 << 20;

/// Opens the database in this directory, and creates it if it does not exist. Returns it with the lock that
/// excludes other dispatchers.
pub(super) fn open(folder: &Path) -> Result<(Database, File), WorkDirError> {
    make_folder(folder)?;
    let lock = lock(folder)?;
    let file = folder.join(FILE);
    // An unfinished file is removed. A file that cannot be removed does no harm until another store is
    // created.
    fs::remove_file(folder.join(FRESH)).ok();
    if !file.try_exists().map_err(WorkDirError::inaccessible(&file))? {
        make_store(folder)?;
    }
    check_owner(&file)?;
    check_beginning(&file)?;
    let database = guarded(&file, || {
        let database = builder()
            .open(&file)
            .map_err(|error| WorkDirError::of_database(&file, error))?;
        check_format(&database, &file)?;
        compact(database, folder)
    })?;
    Ok((database, lock))
}

/// Opens the database again after a failed write.
pub(super) fn reopen(file: &Path) -> Result<Database, redb::Error> {
    let open = || builder().open(file).map_err(redb::Error::from);
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| Err(redb::Error::PreviousIo))
}

/// Runs `read`, and reports a panic of the database as damage to the file. Checksums find most damage, but
/// the database may still panic on the rest.
pub(super) fn guarded<T>(
    file: &Path,
    read: impl FnOnce() -> Result<T, WorkDirError>,
) -> Result<T, WorkDirError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(WorkDirError::damaged(
            file,
            reason.unwrap_or("the database cannot read it"),
        ))
    })
}

/// Refuses a store file of another user: in a directory that other users may write to, they can replace
/// files.
fn check_owner(file: &Path) -> Result<(), WorkDirError> {
    let metadata = fs::symlink_metadata(file).map_err(WorkDirError::inaccessible(file))?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    Err(WorkDirError::OfAnotherUser {
        file: file.to_owned(),
        owner,
        user,
    })
}

/// Creates the directory with access for its user alone, because the store holds the keys that sign
/// tickets.
fn make_folder(folder: &Path) -> Result<(), WorkDirError> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(folder)
        .map_err(WorkDirError::inaccessible(folder))?;
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
        Some(_) | None => Ok(()),
    }
}

fn lock(folder: &Path) -> Result<File, WorkDirError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let lock = options.open(&path).map_err(WorkDirError::inaccessible(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(WorkDirError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(WorkDirError::inaccessible(&path)(source)),
    }
}

/// Creates an empty store. The file is written under another name first, so that a file under the final
/// name is complete.
fn make_store(folder: &Path) -> Result<(), WorkDirError> {
    let (fresh, file) = (folder.join(FRESH), folder.join(FILE));
    let filled = fill(&fresh, |_| Ok(())).and_then(|database| Ok(database.close()?));
    filled.map_err(|error| WorkDirError::of_database(&fresh, error))?;
    fs::rename(&fresh, &file).map_err(WorkDirError::inaccessible(&file))?;
    sync_folder(folder)
}

/// Creates a store file with access for its user alone, with the records that `put` inserts.
fn fill(
    fresh: &Path,
    put: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<(), redb::Error>,
) -> Result<Database, redb::Error> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(fresh)?;
    let database = builder().create(fresh)?;
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    write.open_table(FORMAT)?.insert(FORMAT_KEY, FORMAT_VERSION)?;
    put(&mut write.open_table(RECORDS)?)?;
    write.commit()?;
    Ok(database)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true);
    builder
}

fn check_beginning(file: &Path) -> Result<(), WorkDirError> {
    let mut beginning = Vec::new();
    let opened = File::open(file).map_err(WorkDirError::inaccessible(file))?;
    let mut opened = opened.take(MAGIC.len() as u64);
    opened
        .read_to_end(&mut beginning)
        .map_err(WorkDirError::inaccessible(file))?;
    if beginning == MAGIC {
        return Ok(());
    }
    let reason = if beginning.is_empty() {
        "it is empty"
    } else {
        "it does not begin like one"
    };
    Err(WorkDirError::foreign(file, reason))
}

fn check_format(database: &Database, file: &Path) -> Result<(), WorkDirError> {
    let damaged = |error: redb::Error| WorkDirError::of_database(file, error);
    let read = database.begin_read().map_err(|error| damaged(error.into()))?;
    let table = match read.open_table(FORMAT) {
        Ok(table) => table,
        Err(TableError::Storage(error)) => return Err(damaged(error.into())),
        Err(error) => return Err(WorkDirError::foreign(file, error.to_string())),
    };
    let found = table.get(FORMAT_KEY).map_err(|error| damaged(error.into()))?;
    match found.map(|format| format.value()) {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => Err(WorkDirError::Later {
            file: file.to_owned(),
            found,
            known: FORMAT_VERSION,
        }),
        Some(0..) | None => Err(WorkDirError::foreign(file, "it states no format")),
    }
}

/// Shrinks a file that mostly holds deleted records. The records are copied to a new file, which then
/// replaces the old file, so that one of the two is complete at any time. Copying takes as long as reading
/// and writing the records once, whereas moving pages within the file has no such bound. If the disk has no
/// space for the copy, the file stays as it is.
fn compact(database: Database, folder: &Path) -> Result<Database, WorkDirError> {
    let (fresh, file) = (folder.join(FRESH), folder.join(FILE));
    if !is_slack(&database, &file)? {
        return Ok(database);
    }
    if let Err(error) = copy(&database, &fresh) {
        tracing::warn!(file = %file.display(), %error, "the store cannot be compacted");
        // The unfinished copy occupies space on a disk that may be full.
        fs::remove_file(&fresh).ok();
        return Ok(database);
    }
    drop(database);
    fs::rename(&fresh, &file).map_err(WorkDirError::inaccessible(&file))?;
    sync_folder(folder)?;
    builder()
        .open(&file)
        .map_err(|error| WorkDirError::of_database(&file, error))
}

/// Returns whether a file is large and mostly empty.
fn is_slack(database: &Database, file: &Path) -> Result<bool, WorkDirError> {
    let damaged = |error: redb::Error| WorkDirError::of_database(file, error);
    let file_bytes = fs::metadata(file)
        .map_err(WorkDirError::inaccessible(file))?
        .len();
    let write = database.begin_write().map_err(|error| damaged(error.into()))?;
    let stored_bytes = write
        .stats()
        .map_err(|error| damaged(error.into()))?
        .stored_bytes();
    write.abort().map_err(|error| damaged(error.into()))?;
    Ok(file_bytes > SLACK_BYTES.max(stored_bytes.saturating_mul(2)))
}

/// Copies the records to a new file, in one commit.
fn copy(database: &Database, fresh: &Path) -> Result<(), redb::Error> {
    let records = database.begin_read()?.open_table(RECORDS)?;
    let mut database = fill(fresh, |table| {
        for entry in records.iter()? {
            let (key, bytes) = entry?;
            table.insert(key.value(), bytes.value())?;
        }
        Ok(())
    })?;
    // A file grows by doubling. Compacting cuts off the excess, and moves few pages.
    database.compact()?;
    database.close()?;
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), WorkDirError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(WorkDirError::inaccessible(folder))
}
