//! The directory of cached blocks. Each block is a file in one of 256 directories, named by the digest of its
//! description.
//!
//! A file is written to a temporary path and renamed, so that no process sees an incomplete block. The least
//! recently used files are deleted under a lock that the processes share.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::entry;

/// The minimum size with which a file is counted, because each file occupies at least one block of the disk.
const FILE_BYTES_MIN: u64 = 4096;
/// The maximum number of cached files. A scan holds an entry in memory for each file.
const FILES_MAX: usize = 1 << 20;
/// The age at which a temporary file counts as abandoned, because its process must have ended.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// The directory of cached blocks, as one process sees it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    limit_bytes: u64,
    /// The number of bytes in the folder at the last scan, plus the bytes written since.
    known_bytes: AtomicU64,
    /// The number of bytes that this process has written since the last scan.
    written_bytes: AtomicU64,
    has_complained: AtomicBool,
}

/// A cached file, as a scan found it.
struct Kept {
    used: SystemTime,
    bytes: u64,
    digest: [u8; 32],
}

impl Folder {
    /// Opens the directory `path`, creates it if it is missing, and checks that it is writable.
    pub(super) fn open(path: &Path, limit_bytes: u64) -> io::Result<Folder> {
        make_directory(path)?;
        make_directory(&path.join("aside"))?;
        drop(tempfile::NamedTempFile::new_in(path.join("aside"))?);
        let folder = Folder {
            path: path.to_owned(),
            limit_bytes,
            known_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            has_complained: AtomicBool::new(false),
        };
        folder.sweep(0)?;
        Ok(folder)
    }

    /// Returns the block with the description `description`, of at most `bytes_max` bytes; `None` if the
    /// block is not cached. A damaged file is deleted.
    pub(super) fn read(&self, description: &str, bytes_max: u64) -> Option<Bytes> {
        let path = self.file_of(&digest_of(description));
        let mut file = File::open(&path).ok()?;
        let size = file.metadata().ok()?.len();
        let mut content = Vec::new();
        let is_read = size <= entry::size_max(bytes_max) && {
            content.reserve(size as usize);
            let limit = size.saturating_add(1);
            Read::by_ref(&mut file)
                .take(limit)
                .read_to_end(&mut content)
                .is_ok()
        };
        let found = is_read.then(|| entry::decode(description, content)).flatten();
        match &found {
            // A failure does no harm, because the order of uses only has to be roughly right.
            Some(_) => drop(file.set_times(FileTimes::new().set_modified(SystemTime::now()))),
            None => {
                tracing::warn!(file = %path.display(), "a cached block is damaged and will be fetched again");
                drop(fs::remove_file(&path));
            }
        }
        found
    }

    /// Caches `bytes` with the description `description`. A block that cannot be written is not cached; the
    /// first such failure is logged.
    pub(super) fn write(&self, description: &str, bytes: &[u8]) {
        let outcome = self.written(description, bytes);
        if let Err(error) = outcome
            && !self.has_complained.swap(true, Ordering::Relaxed)
        {
            let directory = self.path.display();
            tracing::warn!(%directory, %error, "cannot write a block to the cache; further failures are not logged");
        }
    }

    fn written(&self, description: &str, bytes: &[u8]) -> io::Result<()> {
        let Some(content) = entry::encode(description, bytes) else {
            return Ok(());
        };
        let counted = (content.len() as u64).max(FILE_BYTES_MIN);
        // A block that would push out many other blocks is not cached.
        if counted > self.limit_bytes / 8 {
            return Ok(());
        }
        let known = self.known_bytes.load(Ordering::Relaxed) + counted;
        let written = self.written_bytes.load(Ordering::Relaxed) + counted;
        if known > self.limit_bytes || written > self.limit_bytes / 16 {
            self.sweep(counted)?;
        }
        self.known_bytes.fetch_add(counted, Ordering::Relaxed);
        self.written_bytes.fetch_add(counted, Ordering::Relaxed);
        let mut aside = tempfile::NamedTempFile::new_in(self.path.join("aside"))?;
        aside.write_all(&content)?;
        let path = self.file_of(&digest_of(description));
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        aside.persist(path)?;
        Ok(())
    }

    /// Scans the directory, and deletes the least recently used files if `more` bytes would exceed the limit.
    /// Returns without a scan if another process is scanning.
    fn sweep(&self, more: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = lock.open(self.path.join("lock"))?;
        self.written_bytes.store(0, Ordering::Relaxed);
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        self.forget_abandoned()?;
        let mut kept = self.look_through()?;
        let mut bytes: u64 = kept.iter().map(|file| file.bytes).sum();
        if bytes + more > self.limit_bytes || kept.len() > FILES_MAX {
            kept.sort_unstable_by_key(|file| file.used);
            // More files are deleted than necessary, so that the next blocks need no scan.
            let (bytes_left, files_left) = (self.limit_bytes / 8 * 7, FILES_MAX / 8 * 7);
            let mut files = kept.len();
            for file in &kept {
                if bytes <= bytes_left && files <= files_left {
                    break;
                }
                match fs::remove_file(self.file_of(&file.digest)) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                bytes -= file.bytes;
                files -= 1;
            }
        }
        self.known_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the cached files, but at most twice as many as the limit. With so many files, the scan must
    /// delete files in any case.
    fn look_through(&self) -> io::Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for first in 0..=u8::MAX {
            let directory = match fs::read_dir(self.path.join(format!("{first:02x}"))) {
                Ok(directory) => directory,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for file in directory {
                let file = file?;
                let (Some(digest), Ok(metadata)) = (digest_in(&file.file_name()), file.metadata()) else {
                    continue;
                };
                if kept.len() == 2 * FILES_MAX {
                    return Ok(kept);
                }
                kept.push(Kept {
                    used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    bytes: metadata.len().max(FILE_BYTES_MIN),
                    digest,
                });
            }
        }
        Ok(kept)
    }

    /// Deletes the temporary files of processes that have ended.
    fn forget_abandoned(&self) -> io::Result<()> {
        for file in fs::read_dir(self.path.join("aside"))? {
            let file = file?;
            let age = file.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED_AFTER) {
                drop(fs::remove_file(file.path()));
            }
        }
        Ok(())
    }

    fn file_of(&self, digest: &[u8; 32]) -> PathBuf {
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.path.join(&name[..2]).join(name)
    }
}

fn digest_of(description: &str) -> [u8; 32] {
    let mut found = [0; 32];
    found.copy_from_slice(digest(&SHA256, description.as_bytes()).as_ref());
    found
}

/// Parses the digest that a file name consists of; returns `None` for other names.
fn digest_in(name: &std::ffi::OsStr) -> Option<[u8; 32]> {
    let name = name.to_str().filter(|name| name.len() == 64 && name.is_ascii())?;
    let mut digest = [0; 32];
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&name[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

/// Creates a directory that only this user may enter, because the cached data may be private.
fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn files(folder: &Folder) -> Vec<Kept> {
        folder.look_through().unwrap()
    }

    #[test]
    fn every_process_finds_the_cached_blocks() {
        let directory = directory();
        let one = Folder::open(directory.path(), LIMIT).unwrap();
        let other = Folder::open(directory.path(), LIMIT).unwrap();
        one.write("a", b"bytes");
        assert_eq!(other.read("a", 5).as_deref(), Some(&b"bytes"[..]));
        assert_eq!(other.read("b", 5), None);
        one.write("a", b"later");
        assert_eq!(other.read("a", 5).as_deref(), Some(&b"later"[..]));
    }

    #[test]
    fn damage_is_noticed_and_what_is_damaged_goes() {
        let directory = directory();
        let folder = Folder::open(directory.path(), LIMIT).unwrap();
        folder.write("a", b"bytes");
        let path = folder.file_of(&digest_of("a"));
        let mut content = fs::read(&path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        fs::write(&path, content).unwrap();
        assert_eq!(folder.read("a", 5), None);
        assert!(!path.exists());
        // A file that is longer than the limit of a block is deleted without being read.
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert_eq!(folder.read("a", 5), None);
        assert!(!path.exists());
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let directory = directory();
        let folder = Folder::open(directory.path(), LIMIT).unwrap();
        let block = vec![7; 10_000];
        let old = SystemTime::now() - Duration::from_secs(1000);
        for number in 0..60_u64 {
            folder.write(&number.to_string(), &block);
            let times = FileTimes::new().set_modified(old + Duration::from_secs(number));
            let path = folder.file_of(&digest_of(&number.to_string()));
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_times(times)
                .unwrap();
        }
        assert!(folder.read("0", 10_000).is_some(), "the block was used just now");
        for number in 60..400_u64 {
            folder.write(&number.to_string(), &block);
            let bytes: u64 = files(&folder).iter().map(|file| file.bytes).sum();
            assert!(bytes <= LIMIT, "{bytes} bytes are cached");
        }
        assert_eq!(folder.read("1", 10_000), None);
        assert!(folder.read("399", 10_000).is_some());
    }

    #[test]
    fn two_processes_respect_the_cache_limit() {
        let directory = directory();
        let folders = [(); 2].map(|()| Folder::open(directory.path(), LIMIT).unwrap());
        let block = vec![7; 10_000];
        for number in 0..400_u64 {
            folders[number as usize % 2].write(&number.to_string(), &block);
            let bytes: u64 = files(&folders[0]).iter().map(|file| file.bytes).sum();
            assert!(
                bytes <= LIMIT + 2 * (LIMIT / 16 + 20_000),
                "{bytes} bytes are cached"
            );
        }
    }

    #[test]
    fn only_abandoned_cache_files_are_removed() {
        let directory = directory();
        let folder = Folder::open(directory.path(), LIMIT).unwrap();
        folder.write("a", b"bytes");
        let (aside, fresh) = (
            directory.path().join("aside/old"),
            directory.path().join("aside/new"),
        );
        let foreign = folder.file_of(&digest_of("a")).with_file_name("readme");
        for path in [&aside, &fresh, &foreign] {
            fs::write(path, b"").unwrap();
        }
        let times = FileTimes::new().set_modified(SystemTime::now() - 2 * ABANDONED_AFTER);
        File::options()
            .write(true)
            .open(&aside)
            .unwrap()
            .set_times(times)
            .unwrap();
        folder.sweep(0).unwrap();
        assert!(!aside.exists() && fresh.exists() && foreign.exists());
    }

    #[test]
    fn an_overlarge_block_is_not_cached() {
        let directory = directory();
        let folder = Folder::open(directory.path(), LIMIT).unwrap();
        folder.write("a", &vec![0; LIMIT as usize / 8]);
        assert_eq!(folder.read("a", LIMIT), None);
    }
}
