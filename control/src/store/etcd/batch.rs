//! The bytes of a commit in etcd: the changed records, encoded one after the other.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use crate::dispatcher::Change;

/// Encoded changes by the key of their record. `None` deletes the record.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The first byte of every commit, which is the version of its form.
const VERSION: u8 = 1;

/// Returns the encoded changes. The last change of a record replaces earlier ones.
pub(super) fn encoded(changes: &[Change]) -> Changes {
    let mut encoded = Changes::new();
    for change in changes {
        let bytes = match change {
            Change::Put(record) => Some(record.to_bytes()),
            Change::Delete(_) => None,
        };
        encoded.insert(change.key().to_bytes(), bytes);
    }
    encoded
}

/// Returns the bytes of a commit with these changes.
pub(super) fn encode(changes: &Changes) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for (key, record) in changes {
        put(&mut bytes, key);
        bytes.push(u8::from(record.is_some()));
        if let Some(record) = record {
            put(&mut bytes, record);
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    bytes.extend(length.to_le_bytes());
    bytes.extend(part);
}

/// Adds the changes of a commit to `changes`. Returns `None` if the bytes are not a commit.
pub(super) fn decode_into(changes: &mut Changes, bytes: &[u8]) -> Option<()> {
    let (version, mut rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    while !rest.is_empty() {
        let key = take(&mut rest)?.to_vec();
        let (is_put, after) = rest.split_first()?;
        rest = after;
        let record = match is_put {
            0 => None,
            1 => Some(take(&mut rest)?.to_vec()),
            2.. => return None,
        };
        changes.insert(key, record);
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changes() -> impl Strategy<Value = Changes> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        prop::collection::btree_map(bytes(), prop::option::of(bytes()), 0..20)
    }

    proptest! {
        #[test]
        fn commits_are_read_as_written(changes in changes()) {
            let mut read = Changes::new();
            prop_assert_eq!(decode_into(&mut read, &encode(&changes)), Some(()));
            prop_assert_eq!(read, changes);
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            decode_into(&mut Changes::new(), &bytes);
        }
    }
}
