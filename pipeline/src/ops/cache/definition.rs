//! The definition of `cache`, which yields the elements of the first pass in every pass.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;
use crate::graph::tree::Role;

/// The default limit of bytes that a `cache` in memory holds. A larger dataset belongs into a cache in
/// a directory.
pub const CACHE_BYTES_DEFAULT: u64 = 1 << 30;

/// The parameters of `cache`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The directory that keeps the elements. `None` keeps the elements in memory.
    #[n(0)]
    pub path: Option<String>,
    /// The maximum number of bytes that a cache in memory holds. A cache in a directory ignores this
    /// limit.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        match &self.path {
            Some(path) => check_name("path", path),
            None if self.bytes_max == 0 => Err("has a limit of 0 bytes, expected at least 1".to_owned()),
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
        Some("yields elements that it kept from another pass")
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

/// Checks whether an operation that keeps elements, in memory or in files, is allowed at this place of
/// a graph.
pub(crate) fn check_kept_place(role: Role, nesting: usize, is_in_files: bool) -> Result<(), String> {
    match role {
        Role::Value => Err(
            "is not allowed in a function that computes one value from another, which consists of maps alone"
                .to_owned(),
        ),
        Role::Dataset | Role::Function if is_in_files && nesting > 0 => {
            Err("keeps elements in files, but is used in a function, which runs once per element".to_owned())
        }
        Role::Dataset | Role::Function => Ok(()),
    }
}

impl Dataset {
    /// Keeps the elements of the first pass in memory, and yields these elements in every later pass of
    /// the execution. Holds at most [`CACHE_BYTES_DEFAULT`] bytes; a larger pass is an error. Keeps
    /// only a pass that is read to its end. Operations below the cache run once, so random draws and
    /// function results repeat.
    ///
    /// If the dataset is distributed in splits, each task keeps the elements of its own splits from the
    /// first pass.
    ///
    /// Works like `tf.data.Dataset.cache()`.
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

    /// Works like [`Dataset::cache`], but holds at most `bytes_max` bytes.
    pub fn cache_within(self, bytes_max: u64) -> Dataset {
        let path = None;
        self.then(Cache { path, bytes_max })
    }

    /// Keeps the elements of the first pass in the directory `path`, and yields these elements in every
    /// later pass of every execution. Creates the directory. An existing directory is used even if the
    /// dataset has changed since; remove the directory to fill it again.
    ///
    /// The cache exists once a pass has been read to its end, completely or not at all. Damaged files
    /// are an error. Only one execution writes the directory at a time; a second writer is refused. A
    /// dataset with a cache in a directory cannot be distributed in splits. If the input is sharded,
    /// each shard has a directory of its own.
    ///
    /// Works like `tf.data.Dataset.cache(filename)`.
    pub fn cache_in(self, path: impl Into<String>) -> Dataset {
        let (path, bytes_max) = (Some(path.into()), 0);
        self.then(Cache { path, bytes_max })
    }
}
