//! The family of operations that keep elements, in memory or in files, and yield what they kept: parameters, rules and what
//! each keeps of its input's promises.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};
use smallvec::SmallVec;

use super::check::check_name;
use super::codec::{Parameters, encoded};
use super::definition::{Graph, Role};
use super::error::{AnalysisError, GraphError};
use super::facts::Cardinality;
use super::group_spec::wants_number;
use super::registry::Registry;
use super::spec::node_specs;

/// Bytes that a `cache` in memory holds unless it is told otherwise: more is for a file.
pub const CACHE_BYTES_DEFAULT: u64 = 1 << 30;

/// An operation that keeps elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// The elements of the first pass in every pass.
    Cache(Cache),
    /// The elements that were written when the same dataset was first read to its end, by whatever run.
    Snapshot(Box<Snapshot>),
}

/// Parameters of `cache`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cache {
    /// The directory that elements are kept in; absent = memory.
    #[n(0)]
    pub path: Option<String>,
    /// Bytes that are held in memory, where elements are kept there.
    #[n(1)]
    pub bytes_max: u64,
}

/// Parameters of `snapshot`.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The directory that snapshots are kept in, each in one named after what it is of.
    pub path: String,
    /// How elements are packed.
    pub packing: Packing,
    /// Makes the number of an element's shard, an `i64` from 0 on: maps over an element. Absent = by turns.
    pub shard: Option<Graph>,
    /// Makes elements of the paths of the shards. Absent = shards by turns.
    pub reader: Option<Graph>,
}

/// The parameters of `snapshot` that are no functions.
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

/// How elements in files are packed, some of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Packing {
    /// They are not.
    #[default]
    #[n(0)]
    None,
    /// LZ4 blocks: quick.
    #[n(1)]
    Lz4,
    /// gzip: small.
    #[n(2)]
    Gzip,
}

impl Kept {
    /// The names of all of them.
    pub(super) const NAMES: &'static [&'static str] = &["cache", "snapshot"];

    /// The name on the wire and in messages.
    pub fn op_name(&self) -> &'static str {
        match self {
            Kept::Cache(_) => "cache",
            Kept::Snapshot(_) => "snapshot",
        }
    }

    /// Whether it keeps elements in files.
    pub fn is_in_files(&self) -> bool {
        match self {
            Kept::Cache(cache) => cache.path.is_some(),
            Kept::Snapshot(_) => true,
        }
    }

    pub(super) fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        match self {
            Kept::Cache(_) => SmallVec::new(),
            Kept::Snapshot(snapshot) => {
                let shard = snapshot.shard.iter().map(|graph| (graph, Role::Value));
                let reader = snapshot.reader.iter().map(|graph| (graph, Role::Function));
                shard.chain(reader).collect()
            }
        }
    }

    pub(super) fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        match self {
            Kept::Cache(_) => SmallVec::new(),
            Kept::Snapshot(snapshot) => snapshot.shard.iter_mut().chain(&mut snapshot.reader).collect(),
        }
    }

    /// Its parameters as bytes; functions are encoded beside them.
    pub(super) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Kept::Cache(cache) => encoded(cache),
            Kept::Snapshot(snapshot) => encoded(&SnapshotRecord {
                path: snapshot.path.clone(),
                packing: snapshot.packing,
                has_shard: snapshot.shard.is_some(),
                has_reader: snapshot.reader.is_some(),
            }),
        }
    }

    /// The operation that these are the parameters of, if it is of this family, with the functions that `function` reads.
    pub(super) fn decode(
        params: &Parameters<'_>,
        function: impl Fn(usize) -> Result<Graph, GraphError>,
    ) -> Result<Option<Kept>, GraphError> {
        Ok(Some(match params.op {
            "cache" => Kept::Cache(params.decode()?),
            "snapshot" => {
                let record: SnapshotRecord = params.decode()?;
                let shard = record.has_shard.then(|| function(0)).transpose()?;
                let reader = record.has_reader.then(|| function(usize::from(record.has_shard)));
                Kept::Snapshot(Box::new(Snapshot {
                    path: record.path,
                    packing: record.packing,
                    shard,
                    reader: reader.transpose()?,
                }))
            }
            _ => return Ok(None),
        }))
    }

    /// The rules that parameters obey by themselves.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Kept::Cache(Cache { path: Some(path), .. }) => check_name("path", path),
            Kept::Cache(cache) if cache.bytes_max == 0 => Err("holds no bytes".to_owned()),
            Kept::Cache(_) => Ok(()),
            Kept::Snapshot(snapshot) => check_name("path", &snapshot.path),
        }
    }

    /// What it yields, given elements of `input`.
    pub(super) fn spec(
        &self,
        registry: &dyn Registry,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        let Kept::Snapshot(snapshot) = self else {
            return Ok(input.clone());
        };
        if let Some(shard) = &snapshot.shard {
            wants_number("the shard", shard, registry, input)?;
        }
        if let Some(reader) = &snapshot.reader {
            let read = node_specs(reader, registry, Some(&path_spec()?))?.pop();
            if read.as_ref() != Some(input) {
                let read = read.map_or_else(|| "nothing".to_owned(), |spec| spec.to_string());
                let reason = format!("its reader is to yield what was written, {input}, and yields {read}");
                return Err(mismatch(reason));
            }
        }
        Ok(input.clone())
    }

    /// How many elements it yields, given so many.
    pub(super) fn cardinality(&self, input: Cardinality) -> Cardinality {
        match self {
            Kept::Snapshot(snapshot) if snapshot.reader.is_some() => Cardinality::Unknown,
            Kept::Cache(_) | Kept::Snapshot(_) => input,
        }
    }

    /// Its functions with everything declared that `registry` knows, by `resolved`, which is given a function and its argument.
    pub(super) fn resolve(
        &mut self,
        input: Option<&ElementSpec>,
        resolved: impl Fn(&Graph, Option<&ElementSpec>) -> Result<Graph, AnalysisError>,
    ) -> Result<(), AnalysisError> {
        if let Kept::Snapshot(snapshot) = self {
            if let Some(shard) = &mut snapshot.shard {
                *shard = resolved(shard, input)?;
            }
            if let Some(reader) = &mut snapshot.reader {
                *reader = resolved(reader, Some(&path_spec()?))?;
            }
        }
        Ok(())
    }

    /// The operation of one share of the dataset, which keeps its elements in a place of its own.
    pub(super) fn of_share(&mut self, index: u64, count: u64) {
        let path = match self {
            Kept::Cache(Cache { path: Some(path), .. }) => path,
            Kept::Snapshot(snapshot) => &mut snapshot.path,
            Kept::Cache(_) => return,
        };
        path.push_str(&format!("-{index}-of-{count}"));
    }
}

/// What the reader of a snapshot is given: the path of a shard.
pub(crate) fn path_spec() -> Result<ElementSpec, AnalysisError> {
    ElementSpec::single(TensorSpec::scalar(Dtype::String)).map_err(|error| mismatch(error.to_string()))
}

fn mismatch(reason: String) -> AnalysisError {
    AnalysisError::Mismatch {
        op: "snapshot".to_owned(),
        reason,
    }
}
