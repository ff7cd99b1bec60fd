//! The definition of `cache`: the elements of the first pass in every pass.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;
use crate::graph::tree::Role;

/// Bytes that a `cache` in memory holds unless it is told otherwise: more is for a file.
pub const CACHE_BYTES_DEFAULT: u64 = 1 << 30;

/// Parameters of `cache`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The directory that elements are kept in; absent = memory.
    #[n(0)]
    pub path: Option<String>,
    /// Bytes that are held in memory, where elements are kept there.
    #[n(1)]
    #[serde(default = "bytes_default")]
    pub bytes_max: u64,
}

fn bytes_default() -> u64 {
    CACHE_BYTES_DEFAULT
}

impl Operation for Cache {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        match &self.path {
            Some(path) => check_name("path", path),
            None if self.bytes_max == 0 => Err("holds no bytes".to_owned()),
            None => Ok(()),
        }
    }

    fn check_place(&self, role: Role, nesting: usize) -> Result<(), String> {
        check_kept_place(role, nesting, self.path.is_some())
    }

    fn keeps_elements(&self) -> bool {
        true
    }

    fn keeps_files(&self) -> bool {
        self.path.is_some()
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("yields in a pass what it kept of another")
    }

    fn take_share(&mut self, index: u64, count: u64) {
        if let Some(path) = &mut self.path {
            path.push_str(&format!("-{index}-of-{count}"));
        }
    }

    fn reads_files(&self) -> bool {
        false
    }
}

/// Checks where an operation that keeps elements, perhaps in files, may stand.
pub(crate) fn check_kept_place(role: Role, nesting: usize, is_in_files: bool) -> Result<(), String> {
    match role {
        Role::Value => {
            Err("stands in a function that makes one value of another, which is to be maps alone".to_owned())
        }
        Role::Dataset | Role::Function if is_in_files && nesting > 0 => {
            Err("keeps elements in files, and stands in a function, which is called for many".to_owned())
        }
        Role::Dataset | Role::Function => Ok(()),
    }
}

impl Dataset {
    /// The elements of the first pass in every pass of one execution, from memory: at most
    /// [`CACHE_BYTES_DEFAULT`], beyond which is an error. Only a pass that is read to its end is kept. Draws
    /// and functions below are made once.
    ///
    /// Of a dataset dealt out in splits each task keeps what it was dealt in its first pass.
    ///
    /// Works as `tf.data.Dataset.cache()`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 2, 1).cache().repeat(Some(2));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 0, 1].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn cache(self) -> Dataset {
        self.cache_within(CACHE_BYTES_DEFAULT)
    }

    /// Keeps at most so many bytes; else as [`Dataset::cache`].
    pub fn cache_within(self, bytes_max: u64) -> Dataset {
        let path = None;
        self.then(Cache { path, bytes_max })
    }

    /// The elements of the first pass in every pass of every execution, from the directory `path`, which is
    /// made: whatever this dataset has become since, until the directory is removed.
    ///
    /// It is there once a pass has been read to its end, whole or not at all; what is damaged in it is an
    /// error. One execution writes at a time, and another that is to write too is refused. Such a dataset is
    /// not dealt out in splits; divided below, each share has a directory of its own.
    ///
    /// Works as `tf.data.Dataset.cache(filename)`.
    pub fn cache_in(self, path: impl Into<String>) -> Dataset {
        let (path, bytes_max) = (Some(path.into()), 0);
        self.then(Cache { path, bytes_max })
    }
}
