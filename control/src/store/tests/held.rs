//! Tests that a store from an earlier version opens with every record.
//!
//! `MILLSTREAM_HOLD=1 cargo test -p millstream-control held` writes the file again, which only a new
//! version of the store needs.

use std::path::PathBuf;

use super::records::{by_key, record_of_each_kind};
use crate::dispatcher::Change;
use crate::store::disk::FILE;
use crate::store::{DiskStore, Store};

fn held_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/store/tests/held/store.redb")
}

#[test]
fn held_store_opens_with_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(FILE);
    if std::env::var_os("MILLSTREAM_HOLD").is_some() {
        let changes: Vec<Change> = record_of_each_kind().into_iter().map(Change::Put).collect();
        DiskStore::open(folder.path()).unwrap().commit(&changes).unwrap();
        std::fs::copy(&copy, held_file()).unwrap();
    } else {
        std::fs::copy(held_file(), &copy).unwrap();
    }
    let found = DiskStore::open(folder.path()).unwrap().load().unwrap();
    assert_eq!(by_key(found), by_key(record_of_each_kind()));
}
