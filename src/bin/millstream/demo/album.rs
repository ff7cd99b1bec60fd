//! The photographs that are built into the command. The demo writes the photographs to files and removes the
//! files at its end.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The tars of `examples/data`, with their names.
const TARS: [(&str, &[u8]); 4] = [
    (
        "photos-0000.tar",
        include_bytes!("../../../../examples/data/photos-0000.tar"),
    ),
    (
        "photos-0001.tar",
        include_bytes!("../../../../examples/data/photos-0001.tar"),
    ),
    (
        "photos-0002.tar",
        include_bytes!("../../../../examples/data/photos-0002.tar"),
    ),
    (
        "photos-0003.tar",
        include_bytes!("../../../../examples/data/photos-0003.tar"),
    ),
];

/// The number of directory names that the demo tries. Another demo may use a name already.
const ATTEMPTS_MAX: u32 = 100;

/// A private directory with the photographs. Dropping the album removes the directory.
#[derive(Debug)]
pub(super) struct Album {
    directory: PathBuf,
}

impl Album {
    /// Writes the photographs into a new directory below `parent`.
    pub(super) fn open(parent: &Path) -> io::Result<Album> {
        let album = Album {
            directory: new_directory(parent)?,
        };
        for (name, bytes) in TARS {
            let path = album.directory.join(name);
            let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
            file.write_all(bytes)?;
        }
        Ok(album)
    }

    /// Returns the directory of the photographs.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Album {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            tracing::warn!(directory = %self.directory.display(), %error, "cannot remove the demo's photographs");
        }
    }
}

/// Creates a directory that only this user may enter.
fn new_directory(parent: &Path) -> io::Result<PathBuf> {
    for attempt in 0..ATTEMPTS_MAX {
        let path = parent.join(format!("millstream-demo-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        "all names for the demo's directory exist already",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_photographs_go_with_the_album() {
        let parent = tempfile::tempdir().unwrap();
        let (one, two) = (
            Album::open(parent.path()).unwrap(),
            Album::open(parent.path()).unwrap(),
        );
        let directory = one.directory().to_owned();
        assert_ne!(directory, two.directory());
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), TARS.len());
        drop(one);
        assert!(!directory.exists());
        assert!(two.directory().exists());
    }
}
