//! A directory of files of elements, which are its shards. A writer fills a temporary directory next to the
//! final place, and renames the directory when it is complete. Only one writer can work at a time. The next
//! writer replaces the incomplete directory that a crash leaves.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use millstream_element::ElementSpec;

use crate::graph::Packing;

use super::writer::ElementWriter;

/// The maximum number of shards that are written at the same time. Each shard is an open file.
const SHARDS_MAX: usize = 512;
/// The name of the file that lists the shards. The manifest is the last file to be written.
const MANIFEST: &str = "manifest";
const LOCK: &str = "lock";

/// The path of a directory of elements, which may not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    partial: PathBuf,
}

/// The outcome of an attempt to begin writing.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The directory is complete; the paths are its shards, in order.
    Whole(Vec<PathBuf>),
    /// The caller has the lock and writes the directory.
    Writing(Sink),
    /// Another writer has the lock.
    Taken,
}

/// A directory that is being written. If the sink is dropped, the next writer continues or replaces the
/// directory.
#[derive(Debug)]
pub(crate) struct Sink {
    folder: Folder,
    spec: ElementSpec,
    packing: Packing,
    shards: BTreeMap<u64, ElementWriter<BufWriter<File>>>,
    /// The lock file, which is locked until the directory is in its place.
    lock: File,
}

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Folder {
        let path: PathBuf = path.into();
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        Folder {
            path,
            partial: partial.into(),
        }
    }

    /// Returns the shards in order, if the directory is complete; `None` if the directory does not exist.
    pub(crate) fn shards(&self) -> io::Result<Option<Vec<PathBuf>>> {
        let manifest = match fs::read_to_string(self.path.join(MANIFEST)) {
            Ok(manifest) => manifest,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.path.exists() => return Ok(None),
            Err(error) => {
                let message = format!("expected a directory of elements: {error}");
                return Err(io::Error::new(error.kind(), message));
            }
        };
        let shards: Vec<PathBuf> = manifest.lines().map(|name| self.path.join(name)).collect();
        match shards.iter().find(|shard| !shard.is_file()) {
            Some(missing) => {
                let message = format!("the shard {} is missing", missing.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
            None => Ok(Some(shards)),
        }
    }

    /// Begins to write the directory from the start, unless it is complete or another writer has the lock.
    pub(crate) fn begin(&self, spec: &ElementSpec, packing: Packing) -> io::Result<Begun> {
        let sink = match self.locked(spec, packing)? {
            Begun::Writing(sink) => sink,
            begun @ (Begun::Whole(_) | Begun::Taken) => return Ok(begun),
        };
        for entry in fs::read_dir(&self.partial)? {
            let entry = entry?;
            if entry.file_name() != LOCK {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Begun::Writing(sink))
    }

    /// Resumes an earlier write at the state `written`, which [`Sink::flush`] returned. Returns `None` if the
    /// files of that state are missing or too short.
    pub(crate) fn resume(
        &self,
        spec: &ElementSpec,
        packing: Packing,
        written: &[(u64, u64, u64)],
    ) -> io::Result<Option<Begun>> {
        let mut sink = match self.locked(spec, packing)? {
            Begun::Writing(sink) => sink,
            begun @ (Begun::Whole(_) | Begun::Taken) => return Ok(Some(begun)),
        };
        for entry in fs::read_dir(&self.partial)? {
            let entry = entry?;
            let is_known = written
                .iter()
                .any(|(shard, ..)| *entry.file_name() == *name(*shard));
            if !is_known && entry.file_name() != LOCK {
                fs::remove_file(entry.path())?;
            }
        }
        for (shard, bytes, elements) in written {
            let file = OpenOptions::new()
                .write(true)
                .open(self.partial.join(name(*shard)));
            let mut file = match file {
                Ok(file) if file.metadata()?.len() >= *bytes => file,
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            file.set_len(*bytes)?;
            file.seek(SeekFrom::End(0))?;
            let writer = ElementWriter::resumed(BufWriter::new(file), packing, *bytes, *elements);
            sink.shards.insert(*shard, writer);
        }
        Ok(Some(Begun::Writing(sink)))
    }

    fn locked(&self, spec: &ElementSpec, packing: Packing) -> io::Result<Begun> {
        if let Some(shards) = self.shards()? {
            return Ok(Begun::Whole(shards));
        }
        fs::create_dir_all(&self.partial)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.partial.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Begun::Taken),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous owner of the lock may have completed the directory in the meantime.
        if let Some(shards) = self.shards()? {
            return Ok(Begun::Whole(shards));
        }
        Ok(Begun::Writing(Sink {
            folder: self.clone(),
            spec: spec.clone(),
            packing,
            shards: BTreeMap::new(),
            lock,
        }))
    }
}

impl Sink {
    /// Adds an element to the shard `shard`.
    pub(crate) fn write(&mut self, shard: u64, element: &[u8]) -> io::Result<()> {
        if !self.shards.contains_key(&shard) {
            if self.shards.len() >= SHARDS_MAX {
                let message = format!("found more than {SHARDS_MAX} shards, which is the limit");
                return Err(io::Error::other(message));
            }
            let file = File::create(self.folder.partial.join(name(shard)))?;
            let writer = ElementWriter::new(BufWriter::new(file), &self.spec, self.packing)?;
            self.shards.insert(shard, writer);
        }
        match self.shards.get_mut(&shard) {
            Some(writer) => writer.write(element),
            None => Err(io::Error::other("a shard is missing")),
        }
    }

    /// Writes all buffered elements. Returns for each shard its number, its length in bytes and its number of
    /// elements.
    pub(crate) fn flush(&mut self) -> io::Result<Vec<(u64, u64, u64)>> {
        let shards = self.shards.iter_mut();
        shards
            .map(|(shard, writer)| writer.flush().map(|(bytes, elements)| (*shard, bytes, elements)))
            .collect()
    }

    /// Syncs all files to the disk, and moves the directory to its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Folder { path, partial } = &self.folder;
        let mut manifest = String::new();
        for (shard, writer) in self.shards {
            writer.finish()?.into_inner()?.sync_all()?;
            manifest.push_str(&name(shard));
            manifest.push('\n');
        }
        let manifest_path = partial.join(MANIFEST);
        fs::write(&manifest_path, manifest)?;
        File::open(&manifest_path)?.sync_all()?;
        File::open(partial)?.sync_all()?;
        fs::rename(partial, path)?;
        if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
            File::open(parent)?.sync_all()?;
        }
        drop(self.lock);
        Ok(())
    }

    /// Removes the incomplete directory.
    pub(crate) fn discard(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder.partial)
    }
}

/// Returns the name of a shard's file. Names sort in the order of shards below 100 000.
fn name(shard: u64) -> String {
    format!("shard-{shard:05}.elements")
}
