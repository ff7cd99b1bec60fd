//! The digest of the files of a source, by which a resumed epoch notices that its files are others.
//!
//! A position in an epoch is the number of a split. If files were added or removed since the position was
//! saved, the number stands for another split. The digest does not depend on the folder of the files, because
//! another cluster can have the files elsewhere. It does not depend on times and entity tags, which differ
//! between copies.

use crate::exec::random::{digest_of, mix};

use super::listed_item::ListedItem;

/// Returns the digest of the files of a source in their order: of their names below their common folder,
/// their parts and their sizes.
pub(super) fn digest(items: &[ListedItem]) -> u64 {
    let folder = common_folder(items);
    items.iter().fold(items.len() as u64, |digest, item| {
        let size = item.version.map_or(u64::MAX, |version| version.size_bytes());
        mix(mix(digest, digest_of(&item.payload[folder..])), size)
    })
}

/// Returns the length of the path of the longest folder in which all files are.
fn common_folder(items: &[ListedItem]) -> usize {
    let Some((first, others)) = items.split_first() else {
        return 0;
    };
    let alike = others.iter().fold(first.payload.len(), |alike, other| {
        let both = first.payload[..alike].iter().zip(&other.payload);
        both.take_while(|(one, other)| one == other).count()
    });
    let folder = first.payload[..alike].iter().rposition(|byte| *byte == b'/');
    folder.map_or(0, |slash| slash + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<ListedItem> {
        names.iter().map(|name| ListedItem::new(*name)).collect()
    }

    #[test]
    fn the_folder_of_the_files_does_not_matter() {
        let known = digest(&files(&["/data/a/1.txt", "/data/b/1.txt"]));
        assert_eq!(
            known,
            digest(&files(&["s3://bucket/a/1.txt", "s3://bucket/b/1.txt"]))
        );
        assert_ne!(known, digest(&files(&["/data/a/1.txt", "/data/c/1.txt"])));
        assert_eq!(digest(&files(&["/data/1.txt"])), digest(&files(&["1.txt"])));
        assert_eq!(common_folder(&files(&["/data/one.txt", "/data/other.txt"])), 6);
        assert_eq!(
            common_folder(&files(&["/data/a/1", "/data/b", "/data/a/2", "/d/1"])),
            1
        );
    }

    #[test]
    fn other_files_have_another_digest() {
        let known = digest(&files(&["1.txt", "2.txt"]));
        for names in [
            &["1.txt"][..],
            &["1.txt", "3.txt"],
            &["1.txt", "2.txt", "3.txt"],
            &[],
        ] {
            assert_ne!(known, digest(&files(names)), "{names:?}");
        }
    }
}
