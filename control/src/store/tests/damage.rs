//! Tests of damaged files. Damage is refused with the file's name, or has no effect, and never panics.

use std::collections::BTreeMap;
use std::path::Path;

use millstream_testkit::rounds;
use proptest::prelude::*;
use redb::Database;
use tempfile::TempDir;

use super::conformance::{Disk, Subject};
use super::records::{apply, by_key, change, meta};
use crate::dispatcher::{Change, Key, Record};
use crate::store::disk::{FILE, FORMAT, FORMAT_KEY, FORMAT_VERSION, RECORDS};
use crate::store::{DiskStore, Store};

/// The damage that is done to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Flips one bit of the byte at this fraction of the file's length.
    Flip(f64, u8),
    /// Flips one bit of the file's first page, which locates all other pages.
    FlipHeader(usize, u8),
    /// Cuts off the end of the file, from this fraction of its length on.
    Cut(f64),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        3 => (0.0..1.0, 0_u8..8).prop_map(|(part, bit)| Harm::Flip(part, bit)),
        2 => (0_usize..320, 0_u8..8).prop_map(|(byte, bit)| Harm::FlipHeader(byte, bit)),
        1 => (0.0..1.0).prop_map(Harm::Cut),
    ]
}

proptest! {
    #![proptest_config(rounds(96))]
    #[test]
    fn a_damaged_file_is_refused_or_restored(
        commits in prop::collection::vec(prop::collection::vec(change(), 1..40), 1..4),
        is_killed in any::<bool>(),
        harm in harm(),
    ) {
        let mut disk = Disk::new();
        let mut model: BTreeMap<Key, Record> = BTreeMap::new();
        for changes in std::iter::once(vec![Change::Put(meta(7))]).chain(commits) {
            disk.store().commit(&changes).unwrap();
            apply(&mut model, &changes);
        }
        let disk = if is_killed { disk } else { disk.reopened() };
        let folder = harmed_copy(disk.folder.path(), harm);
        match load(folder.path()) {
            Ok(records) => prop_assert_eq!(by_key(records), model),
            Err(error) => {
                let file = folder.path().join(FILE).display().to_string();
                prop_assert!(error.contains(&file), "{}", error);
                prop_assert!(error.contains("move it away"), "{}", error);
            }
        }
    }
}

fn harmed_copy(from: &Path, harm: Harm) -> TempDir {
    let mut bytes = std::fs::read(from.join(FILE)).unwrap();
    let place = |part: f64| (part * bytes.len() as f64) as usize;
    match harm {
        Harm::Flip(part, bit) => {
            let at = place(part);
            flip(&mut bytes, at, bit);
        }
        Harm::FlipHeader(at, bit) => flip(&mut bytes, at, bit),
        Harm::Cut(part) => {
            let at = place(part);
            bytes.truncate(at);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), bytes).unwrap();
    folder
}

/// Flips any bit except one. That bit selects which of the two latest commits counts. With the other value,
/// the file looks as if its process had died just before it reported the latest commit.
fn flip(bytes: &mut [u8], at: usize, bit: u8) {
    if (at, bit) != (9, 0) {
        bytes[at] ^= 1 << bit;
    }
}

fn load(folder: &Path) -> Result<Vec<Record>, String> {
    let mut store = DiskStore::open(folder).map_err(|error| error.to_string())?;
    store.load().map_err(|error| error.to_string())
}

#[test]
fn a_file_of_somebody_else_is_refused() {
    let strangers: [&dyn Fn(&Path); 4] = [
        &|file| std::fs::write(file, "").unwrap(),
        &|file| std::fs::write(file, "Dear diary").unwrap(),
        &|file| change_database(file, |_| {}),
        &|file| {
            change_database(file, |write| {
                write.open_table(FORMAT).unwrap().insert("other", 1).unwrap();
            });
        },
    ];
    for stranger in strangers {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        stranger(&file);
        let error = load(folder.path()).unwrap_err();
        let said = format!("{} is not a dispatcher's store", file.display());
        assert!(error.starts_with(&said), "{error}");
    }
}

#[test]
fn a_later_versions_file_is_refused() {
    let error = load_changed(|write| {
        let later = FORMAT_VERSION + 1;
        write
            .open_table(FORMAT)
            .unwrap()
            .insert(FORMAT_KEY, later)
            .unwrap();
    });
    assert!(
        error.contains("written by a later version of millstream (format 2, this version reads 1)"),
        "{error}"
    );
}

#[test]
fn nonsensical_records_are_refused_by_the_file() {
    let put = |key: &'static [u8], value: Vec<u8>| {
        load_changed(move |write| {
            let mut table = write.open_table(RECORDS).unwrap();
            table.insert(key, value.as_slice()).unwrap();
        })
    };
    let unreadable = put(b"\x07", b"\xff\xff".to_vec());
    assert!(
        unreadable.contains("a stored record cannot be read"),
        "{unreadable}"
    );
    // The record claims a list of 2^60 tasks, but holds no task.
    let endless = put(b"\x07", b"\x82\x07\x81\x9b\x10\0\0\0\0\0\0\0".to_vec());
    assert!(endless.contains("a stored record cannot be read"), "{endless}");
    let misplaced = put(b"\x07", meta(1).to_bytes());
    assert!(misplaced.contains("under another record's key"), "{misplaced}");
    let headless = load_changed(|write| {
        let mut table = write.open_table(RECORDS).unwrap();
        table.remove(Key::Meta.to_bytes().as_slice()).unwrap();
    });
    assert!(headless.contains("which ids come next"), "{headless}");
}

/// Returns the error of a store of two records after a change to its database.
fn load_changed(change: impl FnOnce(&redb::WriteTransaction)) -> String {
    let mut disk = Disk::new();
    let mut records = vec![Change::Put(meta(7))];
    records.push(Change::Put(Record::Client(crate::dispatcher::ClientRecord {
        id: crate::id::ClientId(1),
        session: crate::id::SessionId(2),
        iteration: crate::id::IterationId(3),
        consumer: None,
        whereabouts: crate::whereabouts::Whereabouts::default(),
        reads_before: None,
        in_hand: Default::default(),
    })));
    disk.store().commit(&records).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    std::fs::copy(disk.folder.path().join(FILE), &file).unwrap();
    change_database(&file, change);
    let error = load(folder.path()).unwrap_err();
    assert!(error.contains(&file.display().to_string()), "{error}");
    error
}

fn change_database(file: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::create(file).unwrap();
    let write = database.begin_write().unwrap();
    change(&write);
    write.commit().unwrap();
}
