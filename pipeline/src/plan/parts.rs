//! The division of files into parts, which are leased as splits. The parts are small enough that more workers
//! than files can read, and large enough to be worth a lease.

use crate::graph::FilePart;
use crate::storage::{FILES_MAX, Listed};

use super::listed_item::ListedItem;

/// The minimum number of bytes in a part, which is the size of one request to a store. Smaller files are not
/// divided.
const PART_BYTES_MIN: u64 = 4 << 20;
/// The maximum number of bytes in a part, unless the number of parts would be too large. The limit bounds the
/// work that is lost with one split.
const PART_BYTES_MAX: u64 = 256 << 20;
/// The number of parts into which all files together are divided, if the files are large enough.
const PARTS_WANTED: u64 = 1024;

/// Returns the parts of `files`, each encoded so that it can replace a path. The parts of one file have equal
/// lengths, except for the last part.
pub(super) fn parts(files: &[Listed]) -> Vec<ListedItem> {
    let total = files.iter().fold(0_u64, |total, file| {
        total.saturating_add(file.size_bytes.unwrap_or_default())
    });
    let part_bytes = (total / PARTS_WANTED)
        .clamp(PART_BYTES_MIN, PART_BYTES_MAX)
        .max(total / FILES_MAX as u64);
    let mut parts = Vec::new();
    for file in files {
        let size = file.size_bytes.unwrap_or_default();
        let count = size.div_ceil(part_bytes);
        if count <= 1 {
            parts.push(ListedItem {
                payload: file.path.clone().into_bytes(),
                version: file.version,
            });
            continue;
        }
        let length = size.div_ceil(count);
        for start in (0..count).map(|part| part * length) {
            let part = FilePart {
                path: &file.path,
                range: Some(start..start.saturating_add(length).min(size)),
            };
            parts.push(ListedItem {
                payload: part.written().into_bytes(),
                version: file.version,
            });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(path: &str, size_bytes: Option<u64>) -> Listed {
        Listed {
            path: path.to_owned(),
            size_bytes,
            version: None,
        }
    }

    proptest! {
        #[test]
        fn the_parts_of_files_are_the_files(sizes in prop::collection::vec(prop::option::of(0_u64..1 << 36), 1..6)) {
            let names: Vec<String> = (0..sizes.len()).map(|file| file.to_string()).collect();
            let files: Vec<Listed> = names.iter().zip(&sizes).map(|(name, size)| listed(name, *size)).collect();
            let parts = parts(&files);
            let parts: Vec<Vec<u8>> = parts.into_iter().map(|part| part.payload).collect();
            prop_assert!(parts.is_sorted());
            for (name, size) in names.iter().zip(sizes) {
                let texts = parts.iter().map(|part| std::str::from_utf8(part).unwrap());
                let ranges: Vec<_> = texts.map(FilePart::of).filter(|part| part.path == name).map(|part| part.range).collect();
                if let [None] = &ranges[..] {
                    prop_assert!(size.unwrap_or(0) <= PART_BYTES_MAX);
                    continue;
                }
                let mut next = 0;
                for range in ranges {
                    let range = range.unwrap();
                    prop_assert_eq!(range.start, next);
                    prop_assert!(range.end - range.start <= PART_BYTES_MAX);
                    next = range.end;
                }
                prop_assert_eq!(Some(next), size);
            }
        }
    }

    #[test]
    fn small_files_stay_whole() {
        let whole = parts(&[listed("a", Some(PART_BYTES_MIN)), listed("b", None)]);
        assert_eq!(whole, ["a", "b"].map(ListedItem::new));
        assert_eq!(parts(&[listed("a", Some(PART_BYTES_MIN + 1))]).len(), 2);
        assert_eq!(
            parts(&[listed("a", Some(PARTS_WANTED * PART_BYTES_MIN))]).len(),
            1024
        );
        let absurd = parts(&[listed("a", Some(u64::MAX)), listed("b", Some(u64::MAX))]);
        assert!(absurd.len() <= 2 * FILES_MAX + 2);
    }
}
