//! The digest of the files of a source. The dispatcher compares it to detect that files changed since a state
//! was saved.
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
    let names: Vec<&[u8]> = items.iter().map(|item| without_query(&item.payload)).collect();
    let folder = common_folder(&names);
    items
        .iter()
        .zip(&names)
        .fold(items.len() as u64, |digest, (item, name)| {
            let size = item.version.map_or(u64::MAX, |version| version.size_bytes());
            mix(mix(digest, digest_of(&name[folder..])), size)
        })
}

/// Returns the name of a file without the query of a server's URL, which may be a signature of limited time.
fn without_query(name: &[u8]) -> &[u8] {
    let is_url = name.starts_with(b"http://") || name.starts_with(b"https://");
    let query = name.iter().position(|byte| is_url && *byte == b'?');
    &name[..query.unwrap_or(name.len())]
}

/// Returns the length of the path of the longest folder in which all files are.
fn common_folder(names: &[&[u8]]) -> usize {
    let Some((first, others)) = names.split_first() else {
        return 0;
    };
    let alike = others.iter().fold(first.len(), |alike, other| {
        let both = first[..alike].iter().zip(*other);
        both.take_while(|(one, other)| one == other).count()
    });
    let folder = first[..alike].iter().rposition(|byte| *byte == b'/');
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
        assert_eq!(common_folder(&[b"/data/one.txt", b"/data/other.txt"]), 6);
        assert_eq!(
            common_folder(&[b"/data/a/1", b"/data/b", b"/data/a/2", b"/d/1"]),
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

    #[test]
    fn signatures_of_urls_do_not_matter() {
        let signed = |signature: &str| digest(&files(&[&format!("https://host/a.txt?{signature}")]));
        assert_eq!(signed("one"), signed("other"));
        let named = |name: &str| digest(&files(&[name, "b"]));
        assert_ne!(
            named("a?one"),
            named("a?other"),
            "files of this machine may have such names"
        );
    }
}
