//! The part of the builder that adds operations which keep elements, and reads what was kept.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::dataset::Dataset;
use super::definition::Graph;
use super::error::AnalysisError;
use super::format::{Elements, Format};
use super::group_builder::body;
use super::kept::{CACHE_BYTES_DEFAULT, Cache, Kept, Packing, Snapshot};
use super::op::Op;
use super::params::SpecField;

/// Shards that elements are written to by turns, unless a function says otherwise: as many are read at once.
pub(crate) const SHARDS: u64 = 8;

impl Dataset {
    /// The elements of the first pass in every pass of one execution, from memory: at most [`CACHE_BYTES_DEFAULT`], beyond
    /// which is an error. Only a pass that is read to its end is kept. Draws and functions below are made once.
    ///
    /// Of a dataset dealt out in splits each task keeps what it was dealt in its first pass.
    ///
    /// As `tf.data.Dataset.cache()`.
    pub fn cache(self) -> Dataset {
        self.cache_within(CACHE_BYTES_DEFAULT)
    }

    /// As [`Dataset::cache`], of at most so many bytes.
    pub fn cache_within(self, bytes_max: u64) -> Dataset {
        let path = None;
        self.then(Op::Kept(Kept::Cache(Cache { path, bytes_max })))
    }

    /// The elements of the first pass in every pass of every execution, from the directory `path`, which is made: whatever
    /// this dataset has become since, until the directory is removed.
    ///
    /// It is there once a pass has been read to its end, whole or not at all; what is damaged in it is an error. One
    /// execution writes at a time, and another that is to write too is refused. Such a dataset is not dealt out in splits;
    /// divided below, each share has a directory of its own.
    ///
    /// As `tf.data.Dataset.cache(filename)`.
    pub fn cache_in(self, path: impl Into<String>) -> Dataset {
        let (path, bytes_max) = (Some(path.into()), 0);
        self.then(Op::Kept(Kept::Cache(Cache { path, bytes_max })))
    }

    /// The elements that were written when the same dataset, up to here, was first read to its end, in a directory within
    /// `path` that is named after its definition: what is changed is written anew.
    ///
    /// While another execution writes it, and in the first one, elements pass as they come. Code of registered functions is
    /// not part of a definition: remove the directory when it changes what it yields. Sharing is as of
    /// [`Dataset::cache_in`].
    ///
    /// As `tf.data.Dataset.snapshot`.
    pub fn snapshot(self, path: impl Into<String>, packing: Packing) -> Dataset {
        self.then(Op::Kept(Kept::Snapshot(Box::new(Snapshot {
            path: path.into(),
            packing,
            shard: None,
            reader: None,
        }))))
    }

    /// As [`Dataset::snapshot`], with functions. `shard` is handed an element and is a chain of maps that ends in the number of
    /// its shard, an `i64` from 0 on, of up to 512. `reader` is handed the dataset of the paths of the shards, in order, and
    /// makes the elements of them again, by [`Dataset::elements`].
    pub fn snapshot_with(
        self,
        path: impl Into<String>,
        packing: Packing,
        shard: impl FnOnce(Dataset) -> Dataset,
        reader: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        match (body(shard), body(reader)) {
            (Ok(shard), Ok(reader)) => self.then(Op::Kept(Kept::Snapshot(Box::new(Snapshot {
                path: path.into(),
                packing,
                shard: Some(shard),
                reader: Some(reader),
            })))),
            (Err(error), _) | (_, Err(error)) => self.failed(error),
        }
    }

    /// The elements in the files whose paths this dataset yields, of which each was written by a `save` or a `snapshot` of
    /// elements of `spec`.
    ///
    /// As what a reader of `tf.data.Dataset.load` is given. What is damaged or of another type is an error with its file and
    /// place.
    pub fn elements(self, spec: ElementSpec) -> Dataset {
        let spec = SpecField(spec);
        self.then(Op::Read(Format::Elements(Elements { spec })))
    }

    /// The elements of `spec` that were saved in the directory `path`, in the order in which they were saved. Shards are dealt
    /// out in splits as files are.
    ///
    /// As `tf.data.Dataset.load`.
    pub fn load(path: &str, spec: ElementSpec) -> Dataset {
        Dataset::files(format!("{}/*.elements", escaped(path)))
            .interleave(SHARDS, 1, |shard| shard.elements(spec))
    }
}

/// The function that makes elements of `spec` of the paths of shards which were written by turns.
pub(crate) fn by_turns(spec: ElementSpec) -> Result<Graph, AnalysisError> {
    let reader = body(|shards| shards.interleave(SHARDS, 1, |shard| shard.elements(spec)));
    reader.map_err(|error| AnalysisError::Mismatch {
        op: "snapshot".to_owned(),
        reason: error.to_string(),
    })
}

/// A path in which no character stands for others.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for character in path.chars() {
        if matches!(character, '*' | '?' | '[' | ']') {
            escaped.extend(['[', character, ']']);
        } else {
            escaped.push(character);
        }
    }
    escaped
}
