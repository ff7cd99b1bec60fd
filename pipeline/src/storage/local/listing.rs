//! The expansion of glob patterns. Files are sorted by the bytes of their paths, so that every machine
//! returns the same order.

use std::path::{Path, PathBuf};

use crate::exec::ErrorKind;
use crate::graph::BELOW_CLASSES;
use crate::storage::error::StorageError;
use crate::storage::listed::{FILES_MAX, Listed};
use crate::storage::version::FileVersion;

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
        let file = metadata.filter(std::fs::Metadata::is_file);
        files.push(Listed {
            path,
            size_bytes: file.as_ref().map(std::fs::Metadata::len),
            version: file.as_ref().map(FileVersion::of_local),
        });
    }
    if files.is_empty() {
        return Err(failed(ErrorKind::NotFound, why_nothing(pattern)));
    }
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Returns the reason why no file matches. The reason names a missing directory, or the directory to which
/// the pattern is relative. The reason describes contents of a folder without folders of classes.
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
                absolute(directory).display()
            )
        }
        Some(directory) if pattern.strip_suffix(BELOW_CLASSES).map(Path::new) == Some(directory) => {
            format!("matches no file: {}", layout(&absolute(directory)))
        }
        Some(_) | None if Path::new(pattern).is_relative() => {
            let here = absolute(Path::new("."));
            format!(
                "matches no file: the pattern is relative to the directory {}",
                here.display()
            )
        }
        Some(_) | None => "matches no file".to_owned(),
    }
}

/// Returns the absolute path of a directory of this process.
fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

/// Describes the expected and the found contents of a folder whose subfolders have no files.
fn layout(root: &Path) -> String {
    let (mut files, mut folders) = (0, 0);
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        *(if entry.path().is_dir() {
            &mut folders
        } else {
            &mut files
        }) += 1;
    }
    let root = root.display();
    format!(
        "expected a folder for each class, with the files of the class, as in {root}/CLASS/NAME.jpg; found no \
         file in a folder of {root} (files in {root} itself: {files}; folders: {folders})"
    )
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
    fn relative_patterns_name_their_directory() {
        let here = std::env::current_dir().unwrap();
        let told = list("no-such-file-*.tar").unwrap_err().to_string();
        assert!(
            told.ends_with(&format!("relative to the directory {}", here.display())),
            "{told}"
        );
        let told = list("no-such-folder/*.tar").unwrap_err().to_string();
        let missing = here.join("no-such-folder");
        assert!(
            told.contains(&format!("the directory {} does not exist", missing.display())),
            "{told}"
        );
    }

    #[test]
    fn a_folder_without_classes_is_described() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.jpg", "b.jpg"] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        std::fs::create_dir(directory.path().join("empty")).unwrap();
        let root = directory.path().display();
        let told = list(&format!("{root}{BELOW_CLASSES}")).unwrap_err().to_string();
        assert!(told.contains(&format!("as in {root}/CLASS/NAME.jpg")), "{told}");
        assert!(told.contains("itself: 2; folders: 1)"), "{told}");
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
