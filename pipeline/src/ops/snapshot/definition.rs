//! The definition of `snapshot`, which writes the elements of the first complete pass and reads them
//! afterwards.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_name;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::format::{Elements, Format};
use crate::graph::function_spec::wants_number;
use crate::graph::named::named_params;
use crate::graph::params::SpecField;
use crate::graph::spec::node_specs;
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;
use crate::ops::cache::check_kept_place;
use crate::ops::read::Read;

/// The number of shards that elements are written to in turn, unless a function chooses the shard. The
/// same number of shards is read at once.
pub(crate) const SHARDS: u64 = 8;

/// The parameters of `snapshot`.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The directory that holds the snapshots. Each snapshot has a subdirectory named after the
    /// fingerprint of its dataset.
    pub path: String,
    /// The compression of the files.
    pub packing: Packing,
    /// The function that returns the shard of an element: maps that end in an `i64` of at least 0.
    /// `None` writes to the shards in turn.
    pub shard: Option<Graph>,
    /// The function that turns the dataset of the shards' paths into elements. `None` reads the shards
    /// in turn.
    pub reader: Option<Graph>,
}

/// The parameters of `snapshot` that are not functions.
#[derive(Debug, Clone, Encode, Decode)]
#[cbor(map)]
struct SnapshotRecord {
    #[n(0)]
    path: String,
    #[n(1)]
    packing: Packing,
    #[n(2)]
    has_shard: bool,
    #[n(3)]
    has_reader: bool,
}

/// The compression of elements in files. Several elements are compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// No compression.
    #[default]
    #[n(0)]
    None,
    /// Compression in LZ4 blocks, which is fast.
    #[n(1)]
    Lz4,
    /// Compression with gzip, which makes smaller files.
    #[n(2)]
    Gzip,
}

impl Operation for Snapshot {
    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&SnapshotRecord {
            path: self.path.clone(),
            packing: self.packing,
            has_shard: self.shard.is_some(),
            has_reader: self.reader.is_some(),
        })
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        // The path differs between machines.
        Ok(Some(Vec::new()))
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        let shard = self.shard.iter().map(|graph| (graph, Role::Value));
        let reader = self.reader.iter().map(|graph| (graph, Role::Function));
        shard.chain(reader).collect()
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        self.shard.iter_mut().chain(&mut self.reader).collect()
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("path", &self.path)
    }

    fn check_place(&self, role: Role, nesting: usize) -> Result<(), String> {
        check_kept_place(role, nesting, true)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        if let Some(shard) = &self.shard {
            wants_number("the shard", shard, given.registry, input)?;
        }
        if let Some(reader) = &self.reader {
            let read = node_specs(reader, given.registry, Some(&path_spec()?))?.pop();
            if read.as_ref() != Some(input) {
                let read = read.map_or_else(|| "nothing".to_owned(), |spec| spec.to_string());
                let reason =
                    format!("expected the reader to yield the written elements, {input}, found {read}");
                return Err(given.mismatch(reason));
            }
        }
        Ok(input.clone())
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        match &self.reader {
            Some(_) => Ok(Cardinality::Unknown),
            None => given.count(),
        }
    }

    fn keeps_elements(&self) -> bool {
        true
    }

    fn keeps_files(&self) -> bool {
        true
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("yields elements that it kept from another pass")
    }

    fn take_share(&mut self, index: u64, count: u64) {
        self.path.push_str(&format!("-{index}-of-{count}"));
    }

    fn reads_files(&self) -> bool {
        false
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        if let Some(shard) = &mut self.shard {
            resolution.resolve(shard, resolution.input())?;
        }
        if let Some(reader) = &mut self.reader {
            resolution.resolve(reader, Some(&path_spec()?))?;
        }
        Ok(())
    }
}

/// Decodes a `snapshot` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    let record: SnapshotRecord = encoded.params()?;
    let function = |index| encoded.function(index, "function");
    let shard = record.has_shard.then(|| function(0)).transpose()?;
    let reader = record.has_reader.then(|| function(usize::from(record.has_shard)));
    Ok(Op::new(Snapshot {
        path: record.path,
        packing: record.packing,
        shard,
        reader: reader.transpose()?,
    }))
}

/// Returns the spec of the elements that the reader of a snapshot receives: the path of a shard.
pub(crate) fn path_spec() -> Result<ElementSpec, AnalysisError> {
    ElementSpec::single(TensorSpec::scalar(Dtype::String)).map_err(|error| mismatch(error.to_string()))
}

fn mismatch(reason: String) -> AnalysisError {
    AnalysisError::Mismatch {
        op: "snapshot".to_owned(),
        reason,
    }
}

/// Returns the default reader, which turns the paths of shards into elements of `spec` and reads the
/// shards in turn.
pub(crate) fn by_turns(spec: ElementSpec) -> Result<Graph, AnalysisError> {
    let reader = body(|shards| shards.interleave(SHARDS, 1, |shard| shard.elements(spec)));
    reader.map_err(|error| AnalysisError::Mismatch {
        op: "snapshot".to_owned(),
        reason: error.to_string(),
    })
}

/// Returns `path` with the special characters of glob patterns escaped.
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

/// Adds the operation, without functions for its shards.
pub(crate) fn named(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        path: String,
        packing: Packing,
    }
    let Parameters { path, packing } = named_params(parameters)?;
    let snapshot = Snapshot {
        path,
        packing,
        shard: None,
        reader: None,
    };
    Ok(Dataset::joined(snapshot, inputs))
}

impl Dataset {
    /// Writes the elements of the first complete pass to files, and yields the written elements in
    /// every later pass. The files are in a subdirectory of `path`, named after the definition of the
    /// dataset. A changed definition therefore writes a new snapshot.
    ///
    /// The first pass, and every pass while another execution writes, forwards the elements of the
    /// input. The code of registered functions is not part of the definition: remove the directory when
    /// a function changes its results. Splits and shards are treated as in [`Dataset::cache_in`].
    ///
    /// Works like `tf.data.Dataset.snapshot`.
    pub fn snapshot(self, path: impl Into<String>, packing: Packing) -> Dataset {
        self.then(Snapshot {
            path: path.into(),
            packing,
            shard: None,
            reader: None,
        })
    }

    /// Works like [`Dataset::snapshot`], with functions that distribute and read the elements.
    ///
    /// `shard` is a chain of maps from an element to the number of its shard, an `i64` from 0 to 511.
    /// `reader` receives the dataset of the shards' paths, in order, and turns the paths into elements
    /// with [`Dataset::elements`].
    pub fn snapshot_with(
        self,
        path: impl Into<String>,
        packing: Packing,
        shard: impl FnOnce(Dataset) -> Dataset,
        reader: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        match (body(shard), body(reader)) {
            (Ok(shard), Ok(reader)) => self.then(Snapshot {
                path: path.into(),
                packing,
                shard: Some(shard),
                reader: Some(reader),
            }),
            (Err(error), _) | (_, Err(error)) => self.failed(error),
        }
    }

    /// Reads the elements in the files whose paths this dataset yields. Each file was written by a
    /// `save` or a `snapshot` of elements of the spec `spec`.
    ///
    /// Corresponds to the reader function of `tf.data.Dataset.load`. Damaged elements, and elements of
    /// another spec, are errors that name the file and the place.
    pub fn elements(self, spec: ElementSpec) -> Dataset {
        let spec = SpecField(spec);
        self.then(Read(Format::Elements(Elements { spec })))
    }

    /// Reads the elements of the spec `spec` that were saved in the directory `path`, in the order of
    /// their saving. Shards are distributed in splits, like files.
    ///
    /// Works like `tf.data.Dataset.load`.
    pub fn load(path: &str, spec: ElementSpec) -> Dataset {
        Dataset::files(format!("{}/*.elements", escaped(path)))
            .interleave(SHARDS, 1, |shard| shard.elements(spec))
    }
}
