//! The version of a file, by which a change of its bytes is noticed without reading them.
//!
//! Machines can hold copies of one file with different modification times. The modification time therefore
//! counts only if the inode and the time of birth are the listed ones. Otherwise only the size is compared.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use crate::exec::random::mix;

/// The length of an encoded version in bytes.
pub const FILE_VERSION_BYTES: usize = 16;

/// The identity of every store object that has an entity tag.
const OBJECT: u32 = 2;

/// The version of a file when it was listed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    size_bytes: u64,
    /// The hash of the inode and its time of birth, or [`OBJECT`]; 0 if only the size is known.
    identity: u32,
    /// The hash of the modification time, or of a store's entity tag.
    state: u32,
}

impl FileVersion {
    /// Returns the version of a file of this machine.
    pub(super) fn of_local(file: &Metadata) -> FileVersion {
        // Network file systems round times in different ways, so only microseconds count.
        let changed = mix(file.mtime() as u64, (file.mtime_nsec() / 1000) as u64);
        // File systems in memory number their files alike on each machine, but a copy has another time of
        // birth.
        let born = file
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_micros() as u64);
        FileVersion {
            size_bytes: file.len(),
            // An odd number differs from `OBJECT` and from 0.
            identity: short(mix(file.ino(), born)) | 1,
            state: short(changed),
        }
    }

    /// Returns the version of a store's object.
    #[cfg_attr(
        not(any(feature = "storage", test)),
        expect(dead_code, reason = "without the feature no objects are listed")
    )]
    pub(super) fn of_object(size_bytes: u64, e_tag: Option<&str>) -> FileVersion {
        // Some stores quote a tag only in the answer to a request for the object.
        let tag = e_tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"'));
        let hash = |tag: &str| tag.bytes().fold(0, |hash, byte| mix(hash, u64::from(byte)));
        FileVersion {
            size_bytes,
            identity: tag.map_or(0, |_| OBJECT),
            state: tag.map_or(0, |tag| short(hash(tag))),
        }
    }

    /// Returns the encoded version. No version is encoded as zeros, unless a file of a store is empty and has
    /// no entity tag.
    pub fn to_bytes(self) -> [u8; FILE_VERSION_BYTES] {
        let [size, identity, state] = [
            self.size_bytes,
            u64::from(self.identity) << 32,
            u64::from(self.state),
        ];
        (u128::from(size) << 64 | u128::from(identity | state)).to_be_bytes()
    }

    /// Decodes a version; `None` for zeros.
    pub fn from_bytes(bytes: [u8; FILE_VERSION_BYTES]) -> Option<FileVersion> {
        let all = u128::from_be_bytes(bytes);
        (all != 0).then_some(FileVersion {
            size_bytes: (all >> 64) as u64,
            identity: (all >> 32) as u32,
            state: all as u32,
        })
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// Returns how the file has changed from this version to the version `found`; `None` if no change is
    /// known.
    pub(super) fn change(&self, found: &FileVersion) -> Option<String> {
        let (before, now) = (self.size_bytes, found.size_bytes);
        if before != now {
            return Some(format!(
                "expected {before} bytes, as listed for the epoch, found {now} bytes"
            ));
        }
        let is_same_file = self.identity != 0 && self.identity == found.identity;
        (is_same_file && self.state != found.state)
            .then(|| "its modification time or entity tag differs from the listed one".to_owned())
    }
}

fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn versions_round_trip(size_bytes: u64, identity: u32, state: u32) {
            let version = FileVersion { size_bytes, identity, state };
            let is_zero = (size_bytes, identity, state) == (0, 0, 0);
            prop_assert_eq!(FileVersion::from_bytes(version.to_bytes()), (!is_zero).then_some(version));
        }
    }

    #[test]
    fn changed_files_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let version = |path| FileVersion::of_local(&fs::metadata(path).unwrap());
        let listed = version(&path);
        assert_eq!(listed.change(&version(&path)), None);

        let later = SystemTime::now() + Duration::from_secs(1);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(later)
            .unwrap();
        let told = listed.change(&version(&path)).unwrap();
        assert!(told.contains("modification time"), "{told}");

        fs::write(&path, "four").unwrap();
        let told = listed.change(&version(&path)).unwrap();
        assert!(
            told.contains("expected 3 bytes") && told.contains("found 4 bytes"),
            "{told}"
        );
    }

    #[test]
    fn copies_are_not_changes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "abc").unwrap();
        fs::write(&other, "abc").unwrap();
        let later = SystemTime::now() + Duration::from_secs(1);
        File::options()
            .append(true)
            .open(&other)
            .unwrap()
            .set_modified(later)
            .unwrap();
        let version = |path| FileVersion::of_local(&fs::metadata(path).unwrap());
        assert_eq!(version(one).change(&version(other)), None);
    }

    #[test]
    fn objects_are_compared_by_their_tags() {
        let object = |tag| FileVersion::of_object(3, tag);
        assert_eq!(object(Some("a")).change(&object(Some("\"a\""))), None);
        assert_eq!(object(Some("a")).change(&object(None)), None);
        assert_eq!(object(None).change(&object(Some("a"))), None);
        assert!(object(Some("a")).change(&object(Some("b"))).is_some());
        assert!(object(None).change(&FileVersion::of_object(4, None)).is_some());
    }
}
