//! A count of pictures by their keys. One census counts the pictures in the tars, read without the pipeline
//! under test; another counts the pictures that the demo received.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::pictures::PICTURE_FIELD;

/// The maximum number of keys that a complaint names for each fault.
const NAMED_MAX: usize = 20;

/// The number of occurrences of each key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Census {
    counts: BTreeMap<String, u64>,
    total: u64,
}

impl Census {
    /// Counts the pictures in these tars.
    pub(super) fn of_tars(tars: &[PathBuf]) -> Result<Self, String> {
        let mut census = Self::default();
        for tar in tars {
            census
                .add_tar(tar)
                .map_err(|error| format!("{}: {error}", tar.display()))?;
        }
        Ok(census)
    }

    fn add_tar(&mut self, path: &Path) -> std::io::Result<()> {
        let mut archive = tar::Archive::new(File::open(path)?);
        for entry in archive.entries()? {
            let entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            if let Some(key) = picture_key(&name) {
                self.add(key);
            }
        }
        Ok(())
    }

    /// Counts one picture with this key.
    pub(super) fn add(&mut self, key: &str) {
        self.total += 1;
        match self.counts.get_mut(key) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(key.to_owned(), 1);
            }
        }
    }

    /// Returns the number of all pictures.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Describes the keys that are missing or too frequent in this census. Returns `None` when the census
    /// equals `expected`.
    pub(super) fn complaint(&self, expected: &Census) -> Option<String> {
        let short = |of: &Census, than: &Census| -> Vec<String> {
            let count = |key| of.counts.get(key).copied().unwrap_or(0);
            let fewer = than
                .counts
                .iter()
                .filter(|(key, wanted)| count(key.as_str()) < **wanted);
            fewer.map(|(key, _)| key.clone()).collect()
        };
        let (missing, surplus) = (short(self, expected), short(expected, self));
        let mut parts = Vec::new();
        if !missing.is_empty() {
            parts.push(format!("{} missing ({})", missing.len(), named(&missing)));
        }
        if !surplus.is_empty() {
            parts.push(format!("{} seen too often ({})", surplus.len(), named(&surplus)));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Returns the key of a picture's file in a WebDataset: its path up to the first dot of the file name.
/// Returns `None` for other files.
fn picture_key(name: &str) -> Option<&str> {
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].find('.')?;
    name[dot + 1..]
        .eq_ignore_ascii_case(PICTURE_FIELD)
        .then_some(&name[..dot])
}

fn named(keys: &[String]) -> String {
    let shown = keys
        .iter()
        .take(NAMED_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if keys.len() > NAMED_MAX {
        format!("{shown}, and {} more", keys.len() - NAMED_MAX)
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(keys: &[&str]) -> Census {
        let mut census = Census::default();
        keys.iter().for_each(|key| census.add(key));
        census
    }

    #[test]
    fn missing_and_repeated_pictures_are_named() {
        let expected = census(&["a", "b", "c"]);
        assert_eq!(census(&["c", "b", "a"]).complaint(&expected), None);
        let complaint = census(&["a", "a", "c", "x"]).complaint(&expected);
        assert_eq!(
            complaint.as_deref(),
            Some("1 missing (b), 2 seen too often (a, x)")
        );
    }

    #[test]
    fn a_picture_is_known_by_its_key() {
        assert_eq!(picture_key("train/cat.jpg"), Some("train/cat"));
        assert_eq!(picture_key("a.b/cat.jpg"), Some("a.b/cat"));
        assert_eq!(picture_key("CAT.JPG"), Some("CAT"), "extensions have no case");
        assert_eq!(picture_key("cat.cls"), None);
        assert_eq!(picture_key("cat.small.jpg"), None);
    }
}
