//! The key of a cached block.

use minicbor::{Decode, Encode};

/// The store that contains an object, and the name of the object in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::storage) struct Place {
    pub(in crate::storage) store: String,
    pub(in crate::storage) object: String,
}

/// An object in one version, divided into blocks of a fixed size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::storage) struct Key {
    pub(in crate::storage) place: Place,
    pub(in crate::storage) version: KeptVersion,
    pub(in crate::storage) block_bytes: u64,
}

/// The properties that distinguish the versions of an object.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(in crate::storage) struct KeptVersion {
    #[n(0)]
    pub(in crate::storage) size_bytes: u64,
    #[n(1)]
    pub(in crate::storage) e_tag: Option<String>,
    #[n(2)]
    pub(in crate::storage) modified_ms: i64,
}

impl Place {
    /// Returns the description of the object's version record. The names are quoted with `{:?}`, so that
    /// different objects have different descriptions.
    pub(super) fn description(&self) -> String {
        format!("version of {:?} in {:?}", self.object, self.store)
    }
}

impl Key {
    /// Returns the description of block `index`, with all fields of the key. Different blocks have different
    /// descriptions.
    pub(super) fn block(&self, index: u64) -> String {
        let KeptVersion {
            size_bytes,
            e_tag,
            modified_ms,
        } = &self.version;
        format!(
            "block {index} of {} bytes of {:?} in {:?}, {size_bytes} bytes, mark {e_tag:?}, modified {modified_ms}",
            self.block_bytes, self.place.object, self.place.store
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_is_kept_under_another_description() {
        let key = |store: &str, object: &str, size_bytes, mark: Option<&str>, modified_ms, block_bytes| Key {
            place: Place {
                store: store.to_owned(),
                object: object.to_owned(),
            },
            version: KeptVersion {
                size_bytes,
                e_tag: mark.map(str::to_owned),
                modified_ms,
            },
            block_bytes,
        };
        let keys = [
            key("s", "o", 1, None, 0, 9),
            key("s", "p", 1, None, 0, 9),
            key("t", "o", 1, None, 0, 9),
            key("s", "o\" in \"t", 1, None, 0, 9),
            key("s", "o", 2, None, 0, 9),
            key("s", "o", 1, Some(""), 0, 9),
            key("s", "o", 1, None, 1, 9),
            key("s", "o", 1, None, 0, 8),
        ];
        let mut described: Vec<String> = keys.iter().flat_map(|key| [key.block(0), key.block(1)]).collect();
        described.extend([keys[0].place.description(), keys[1].place.description()]);
        described.sort();
        described.dedup();
        assert_eq!(described.len(), 18);
    }
}
