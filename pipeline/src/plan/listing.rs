//! Expands glob patterns. Sorted by bytes, so that listings of one directory agree on every machine.

use std::path::{Path, PathBuf};

use super::split_plan::PlanError;

/// Files that a pattern may match.
const FILES_MAX: usize = 1 << 20;

/// The files that `pattern` matches, sorted. Directories are not files.
///
/// # Errors
/// [`PlanError`] naming the pattern when it is no pattern, matches nothing, or its directory is missing or
/// unreadable.
pub fn list(pattern: &str) -> Result<Vec<String>, PlanError> {
    let reason = |reason: String| PlanError::Files {
        pattern: pattern.to_owned(),
        reason,
    };
    let paths = glob::glob(pattern).map_err(|error| reason(format!("not a glob pattern: {error}")))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| reason(format!("cannot be listed: {error}")))?;
        if path.is_dir() {
            continue;
        }
        if files.len() == FILES_MAX {
            return Err(reason(format!("matches more than {FILES_MAX} files")));
        }
        let name = path.into_os_string().into_string();
        files.push(name.map_err(|name| reason(format!("matches {name:?}, whose name is not UTF-8")))?);
    }
    if files.is_empty() {
        return Err(reason(why_nothing(pattern)));
    }
    files.sort_unstable();
    Ok(files)
}

/// Tells a missing directory from one without matching files.
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
            format!("matches no file: there is no directory {}", directory.display())
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
            .map(|path| path.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(names, ["a.tar", "b.tar"]);
    }

    #[test]
    fn nothing_found_is_an_error_that_names_the_pattern_and_a_missing_directory() {
        let directory = tempfile::tempdir().unwrap();
        let empty = format!("{}/*.tar", directory.path().display());
        assert_eq!(
            list(&empty).unwrap_err().to_string(),
            format!("files {empty:?}: matches no file")
        );
        let missing = format!("{}/absent/*.tar", directory.path().display());
        let message = list(&missing).unwrap_err().to_string();
        assert!(
            message.contains(&missing) && message.contains("there is no directory"),
            "{message}"
        );
    }

    #[test]
    fn a_malformed_pattern_is_an_error() {
        assert!(
            list("a***")
                .unwrap_err()
                .to_string()
                .contains("not a glob pattern")
        );
    }
}
