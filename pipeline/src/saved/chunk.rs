//! A chunk of a dataset that several processes save: a file of elements that is written under a temporary
//! name, and committed under its final name. A committed chunk is never replaced. This module does not know
//! which elements belong to a chunk, and does not know the directory's other files.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use millstream_element::ElementSpec;

use crate::graph::Packing;

use super::reader::ElementReader;
use super::writer::ElementWriter;

/// The size of a committed chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSize {
    /// The number of elements.
    pub(crate) elements: u64,
    /// The size of the file in bytes.
    pub(crate) bytes: u64,
}

/// Returns the size of the chunk at `path`; `None` if no chunk was committed there.
///
/// # Errors
/// An error of kind `InvalidData` or `UnexpectedEof` if the file is no complete file of elements.
pub(crate) fn chunk_size(path: &Path) -> io::Result<Option<ChunkSize>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = file.metadata()?.len();
    let elements = ElementReader::new(BufReader::new(file))?.count()?;
    Ok(Some(ChunkSize { elements, bytes }))
}

/// A chunk that is being written. If the writer is dropped before the commit, it removes the temporary file.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    path: PathBuf,
    temporary: Temporary,
    writer: ElementWriter<BufWriter<File>>,
}

/// A temporary file, which is removed when the value is dropped.
#[derive(Debug)]
struct Temporary(PathBuf);

impl ChunkWriter {
    /// Begins the chunk that will be committed at `path`. The file in `uncommitted` has a name that no other
    /// writer uses.
    ///
    /// # Errors
    /// An error of kind `NotFound` if the directory `uncommitted` does not exist.
    pub(crate) fn begin(
        path: &Path,
        uncommitted: &Path,
        spec: &ElementSpec,
        packing: Packing,
    ) -> io::Result<ChunkWriter> {
        let unique = RandomState::new().hash_one(std::process::id());
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let temporary = uncommitted.join(format!("{name}.{unique:016x}.tmp"));
        let file = File::create_new(&temporary)?;
        let temporary = Temporary(temporary);
        Ok(ChunkWriter {
            path: path.to_owned(),
            temporary,
            writer: ElementWriter::new(BufWriter::new(file), spec, packing)?,
        })
    }

    /// Adds an element.
    pub(crate) fn write(&mut self, element: &[u8]) -> io::Result<()> {
        self.writer.write(element)
    }

    /// Syncs the file to the disk, and commits it under its final name. If another writer has committed the
    /// chunk, that chunk stays. Returns the size of the committed chunk.
    pub(crate) fn commit(self) -> io::Result<ChunkSize> {
        let ChunkWriter {
            path,
            temporary,
            writer,
        } = self;
        writer.finish()?.into_inner()?.sync_all()?;
        // A link never replaces a file, unlike a rename. Some file systems have no links.
        match fs::hard_link(&temporary.0, &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => fs::rename(&temporary.0, &path)?,
        }
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        chunk_size(&path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The file no longer exists after a rename. A file that cannot be removed is harmless, because the
        // process that saves removes all temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use millstream_element::{Dtype, TensorSpec};
    use proptest::prelude::*;

    use super::*;

    fn spec() -> ElementSpec {
        ElementSpec::single(TensorSpec::scalar(Dtype::I64)).unwrap()
    }

    fn begin(folder: &Path, packing: Packing) -> ChunkWriter {
        ChunkWriter::begin(&folder.join("chunk"), folder, &spec(), packing).unwrap()
    }

    fn elements(path: &Path) -> Vec<Vec<u8>> {
        let mut reader = ElementReader::new(File::open(path).unwrap()).unwrap();
        let mut found = Vec::new();
        while let Some(element) = reader.element().unwrap() {
            found.push(element.to_vec());
        }
        found
    }

    proptest! {
        #[test]
        fn sizes_count_the_elements(sizes in prop::collection::vec(0_usize..300_000, 0..30), packing in 0_usize..3) {
            let packing = [Packing::None, Packing::Lz4, Packing::Gzip][packing];
            let folder = tempfile::tempdir().unwrap();
            let mut chunk = begin(folder.path(), packing);
            for size in &sizes {
                chunk.write(&vec![7; *size]).unwrap();
            }
            let path = folder.path().join("chunk");
            let committed = chunk.commit().unwrap();
            prop_assert_eq!(committed.elements, sizes.len() as u64);
            prop_assert_eq!(committed.bytes, fs::metadata(&path).unwrap().len());
            prop_assert_eq!(chunk_size(&path).unwrap(), Some(committed));
            prop_assert_eq!(elements(&path).len(), sizes.len());
        }

        #[test]
        fn damaged_chunks_have_no_other_size(
            sizes in prop::collection::vec(0_usize..300, 0..10),
            packing in 0_usize..3,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let packing = [Packing::None, Packing::Lz4, Packing::Gzip][packing];
            let folder = tempfile::tempdir().unwrap();
            let mut chunk = begin(folder.path(), packing);
            for size in &sizes {
                chunk.write(&vec![7; *size]).unwrap();
            }
            let committed = chunk.commit().unwrap();
            let path = folder.path().join("chunk");
            let mut bytes = fs::read(&path).unwrap();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            fs::write(&path, bytes).unwrap();
            if let Ok(size) = chunk_size(&path) {
                prop_assert_eq!(size, Some(committed));
            }
        }
    }

    #[test]
    fn the_first_commit_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (
            begin(folder.path(), Packing::None),
            begin(folder.path(), Packing::Lz4),
        );
        first.write(b"first").unwrap();
        second.write(b"second").unwrap();
        second.write(b"third").unwrap();
        let size = first.commit().unwrap();
        assert_eq!(second.commit().unwrap(), size);
        assert_eq!(elements(&folder.path().join("chunk")), [b"first"]);
    }

    #[test]
    fn an_abandoned_chunk_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut chunk = begin(folder.path(), Packing::None);
        chunk.write(b"lost").unwrap();
        assert_eq!(chunk_size(&folder.path().join("chunk")).unwrap(), None);
        drop(chunk);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_truncated_chunk_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut chunk = begin(folder.path(), Packing::None);
        chunk.write(b"element").unwrap();
        let bytes = chunk.commit().unwrap().bytes;
        let path = folder.path().join("chunk");
        let whole = fs::read(&path).unwrap();
        for len in 0..bytes {
            fs::write(&path, &whole[..len as usize]).unwrap();
            assert!(chunk_size(&path).is_err(), "{len} of {bytes} bytes");
        }
    }
}
