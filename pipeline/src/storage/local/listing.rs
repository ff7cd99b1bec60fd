//! The expansion of glob patterns. Files are sorted by the bytes of their paths, so that every machine
//! returns the same order.

use std::path::{Path, PathBuf};

use crate::exec::ErrorKind;
use crate::storage::error::StorageError;
use crate::storage::listed::{FILES_MAX, Listed};

/// Returns the files that match `pattern`, sorted. Directories are left out.
pub(in crate::storage) fn list(pattern: &str) -> Result<Vec<Listed>, StorageError> {
    let failed = |kind, reason: String| StorageError::list(kind, pattern, reason);
    let paths = glob::glob(pattern)
        .map_err(|error| failed(ErrorKind::Caller, format!("invalid glob pattern: {error}")))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| failed(ErrorKind::Data, format!("cannot be listed: {error}")))?;
        // A file without metadata, such as a dangling link, stays in the list and fails when it is opened.
        let metadata = path.metadata().ok();
        if metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            continue;
        }
        if files.len() == FILES_MAX {
            let reason = format!("matches more than {FILES_MAX} files");
            return Err(failed(ErrorKind::Resource, reason));
        }
        let path = path.into_os_string().into_string().map_err(|name| {
            let reason = format!("matches {name:?}, whose name is not UTF-8");
            failed(ErrorKind::Data, reason)
        })?;
        let size_bytes = metadata.filter(std::fs::Metadata::is_file).map(|file| file.len());
        files.push(Listed { path, size_bytes });
    }
    if files.is_empty() {
        return Err(failed(ErrorKind::NotFound, why_nothing(pattern)));
    }
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Returns the reason why no file matches, which names a missing directory.
fn why_nothing(pattern: &str) -> String {
    let is_plain = |part: &Path| !part.to_string_lossy().contains(['*', '?', '[']);
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| is_plain(part.as_ref()))
        .collect();
    let directory = if is_plain(Path::new(pattern)) {
        fixed.parent()
    } else {
        Some(fixed.as_path())
    };
    match directory {
        Some(directory) if !directory.as_os_str().is_empty() && !directory.exists() => {
            format!(
                "matches no file: the directory {} does not exist",
                directory.display()
            )
        }
        Some(_) | None => "matches no file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_sorted_and_has_no_directories() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.tar", "a.tar", "c.txt"] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        std::fs::create_dir(directory.path().join("d.tar")).unwrap();
        let found = list(&format!("{}/*.tar", directory.path().display())).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|file| file.path.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(names, ["a.tar", "b.tar"]);
    }

    #[test]
    fn a_fruitless_pattern_names_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let empty = format!("{}/*.tar", directory.path().display());
        assert_eq!(
            list(&empty).unwrap_err().to_string(),
            format!("cannot list {empty}: matches no file")
        );
        let missing = format!("{}/absent/*.tar", directory.path().display());
        let message = list(&missing).unwrap_err().to_string();
        assert!(
            message.contains(&missing) && message.contains("does not exist"),
            "{message}"
        );
    }

    #[test]
    fn a_malformed_pattern_is_an_error() {
        assert!(
            list("a***")
                .unwrap_err()
                .to_string()
                .contains("invalid glob pattern")
        );
    }
}
