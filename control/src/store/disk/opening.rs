//! Opening a work directory: the directory, the lock on it, and a store file that is complete and undamaged.
//!
//! A store file appears under its name only when it is complete, and is read from end to end before anything
//! in it is believed.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError};

use super::error::WorkDirError;

/// The store.
pub(in crate::store) const FILE: &str = "dispatcher.redb";
/// The store while it is made; one that is found was not finished.
pub(in crate::store) const FRESH: &str = "dispatcher.redb.new";
/// Locked by the dispatcher that works here.
const LOCK: &str = "dispatcher.lock";
/// The first bytes of every file of the database.
const MAGIC: &[u8] = b"redb";

/// The format of the records.
pub(in crate::store) const FORMAT: TableDefinition<'static, &str, u64> =
    TableDefinition::new("millstream dispatcher");
pub(in crate::store) const FORMAT_KEY: &str = "format";
/// Records are [`Record::to_bytes`](crate::dispatcher::Record::to_bytes) under
/// [`Key::to_bytes`](crate::dispatcher::Key::to_bytes). New kinds and fields do not change it.
pub(in crate::store) const FORMAT_VERSION: u64 = 1;
pub(in crate::store) const RECORDS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

/// Memory for the file's pages: the dispatcher has every record in its own memory, and reads the file once.
const CACHE_BYTES: usize = 32 << 20;
/// A file of at most this size is never worth compacting.
const SLACK_BYTES: u64 = 8 << 20;

/// The database in this directory, made if there is none, and the lock that keeps others out of it.
pub(super) fn open(folder: &Path) -> Result<(Database, File), WorkDirError> {
    make_folder(folder)?;
    let lock = lock(folder)?;
    let file = folder.join(FILE);
    // What was not finished; if it cannot be removed it is in nobody's way until another is made.
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

/// The database again, after it could not be written.
pub(super) fn reopen(file: &Path) -> Result<Database, redb::Error> {
    let open = || builder().open(file).map_err(redb::Error::from);
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| Err(redb::Error::PreviousIo))
}

/// Checksums find damage. Should the database trip over some all the same, that is the file's fault and ends
/// nobody.
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
            reason.unwrap_or("it cannot be made sense of"),
        ))
    })
}

/// Refuses a store that another user put there: in a directory that others may write to, anybody can replace
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

/// The store holds the keys that tickets are minted with: it is its user's alone.
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

/// Under another name first: a store that is there is complete.
fn make_store(folder: &Path) -> Result<(), WorkDirError> {
    let (fresh, file) = (folder.join(FRESH), folder.join(FILE));
    let filled = fill(&fresh, |_| Ok(())).and_then(|database| Ok(database.close()?));
    filled.map_err(|error| WorkDirError::of_database(&fresh, error))?;
    fs::rename(&fresh, &file).map_err(WorkDirError::inaccessible(&file))?;
    sync_folder(folder)
}

/// Makes a store of its user's alone, with what `put` puts into it.
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

/// Gives back what a file keeps of records that are long gone: writes what there is to another file, which
/// then takes its name, so that whatever happens one of the two is whole. Takes as long as reading and
/// writing the records once, where moving pages within the file may go on for long. A disk without room for
/// it keeps the file as it is.
fn compact(database: Database, folder: &Path) -> Result<Database, WorkDirError> {
    let (fresh, file) = (folder.join(FRESH), folder.join(FILE));
    if !is_slack(&database, &file)? {
        return Ok(database);
    }
    if let Err(error) = copy(&database, &fresh) {
        tracing::warn!(file = %file.display(), %error, "the store cannot be written again, and stays larger than it need be");
        // What there is of it takes room on a disk that may have none.
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

/// Writes the records to a new file, in one commit.
fn copy(database: &Database, fresh: &Path) -> Result<(), redb::Error> {
    let records = database.begin_read()?.open_table(RECORDS)?;
    let mut database = fill(fresh, |table| {
        for entry in records.iter()? {
            let (key, bytes) = entry?;
            table.insert(key.value(), bytes.value())?;
        }
        Ok(())
    })?;
    // A file grows by doubling: this cuts what is too much, and finds little to move.
    database.compact()?;
    database.close()?;
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), WorkDirError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(WorkDirError::inaccessible(folder))
}
