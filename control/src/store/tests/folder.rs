//! Tests of the work directory: its users, its files, and its size.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::conformance::{Disk, Subject};
use super::records::meta;
use crate::dispatcher::{Change, ClientRecord, Record};
use crate::id::{ClientId, IterationId, SessionId};
use crate::store::disk::{FILE, FRESH};
use crate::store::{DiskStore, Store, WorkDirError};
use crate::whereabouts::Whereabouts;

#[test]
fn a_directory_has_one_dispatcher_at_a_time() {
    let mut disk = Disk::new();
    let folder = disk.folder.path().to_owned();
    let error = DiskStore::open(&folder).unwrap_err();
    assert!(matches!(error, WorkDirError::InUse { .. }), "{error}");
    assert!(
        error.to_string().contains(&folder.display().to_string()),
        "{error}"
    );
    disk.store().commit(&[Change::Put(meta(1))]).unwrap();
    let mut disk = disk.reopened();
    assert_eq!(disk.store().load().unwrap(), [meta(1)]);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("file");
    std::fs::write(&in_the_way, "").unwrap();
    for folder in [in_the_way.clone(), in_the_way.join("below")] {
        let error = DiskStore::open(&folder).unwrap_err();
        assert!(matches!(error, WorkDirError::Inaccessible { .. }), "{error}");
        assert!(
            error.to_string().contains(&in_the_way.display().to_string()),
            "{error}"
        );
    }
}

#[test]
fn a_start_that_was_interrupted_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FRESH), "half a sto").unwrap();
    let mut store = DiskStore::open(folder.path()).unwrap();
    assert_eq!(store.load().unwrap(), []);
    assert!(!folder.path().join(FRESH).exists());
}

/// Checks the mode of the folder, which holds the keys that sign tickets.
#[test]
fn only_its_user_reads_what_is_stored() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("a/b");
    let _store = DiskStore::open(&folder).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

/// In a directory that other users may write to, another user can replace the store.
#[test]
fn a_store_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(DiskStore::open(folder.path()).unwrap());
    let file = folder.path().join(FILE);
    if let Err(error) = std::os::unix::fs::chown(&file, Some(12345), None) {
        // Only root can change the owner of a file.
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    let error = DiskStore::open(folder.path()).unwrap_err();
    assert!(
        matches!(error, WorkDirError::OfAnotherUser { owner: 12345, .. }),
        "{error}"
    );
}

#[test]
fn a_sparse_store_is_rewritten_despite_interruptions() {
    let (disk, before) = emptied();
    std::fs::write(disk.folder.path().join(FRESH), "half a sto").unwrap();
    let mut disk = disk.reopened();
    let after = disk.folder.path().join(FILE).metadata().unwrap();
    assert!(
        before.len() > 8 << 20 && after.len() <= 8 << 20,
        "{after:?} of {before:?}"
    );
    assert_ne!(after.ino(), before.ino(), "a new file must replace the old one");
    assert_eq!(after.permissions().mode() & 0o777, 0o600);
    assert!(!disk.folder.path().join(FRESH).exists());
    assert_eq!(disk.store().load().unwrap(), [meta(1)]);
}

#[test]
fn a_store_that_cannot_be_rewritten_serves() {
    let (disk, before) = emptied();
    std::fs::create_dir(disk.folder.path().join(FRESH)).unwrap();
    let mut disk = disk.reopened();
    let after = disk.folder.path().join(FILE).metadata().unwrap();
    assert_eq!(after.ino(), before.ino());
    assert_eq!(disk.store().load().unwrap(), [meta(1)]);
}

/// Returns a store whose many records were deleted, and the earlier metadata of its file.
fn emptied() -> (Disk, Metadata) {
    const CLIENTS: u64 = 200_000;
    let client = |id| ClientRecord {
        id: ClientId(id),
        session: SessionId(u64::MAX),
        iteration: IterationId(u64::MAX),
        consumer: None,
        whereabouts: Whereabouts::default(),
        reads_before: None,
        in_hand: Default::default(),
    };
    let mut disk = Disk::new();
    let puts = (0..CLIENTS).map(|id| Change::Put(Record::Client(client(id))));
    let puts = std::iter::once(Change::Put(meta(1))).chain(puts);
    disk.store().commit(&puts.collect::<Vec<_>>()).unwrap();
    let peak = disk.folder.path().join(FILE).metadata().unwrap();
    let deletes = (0..CLIENTS).map(|id| Change::Delete(Record::Client(client(id)).key()));
    disk.store().commit(&deletes.collect::<Vec<_>>()).unwrap();
    (disk, peak)
}
