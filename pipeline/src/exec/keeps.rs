//! Prepares and opens the operations of the family that keeps elements.

#[cfg(feature = "saved")]
use std::path::Path;
use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::graph::{Graph, Kept};

use super::caches::CachePlace;
use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::iterate::Input;
use super::ops;
#[cfg(feature = "saved")]
use super::ops::Keeping;
use super::program::{Means, OpenError, Program, body_of};

/// What an operation that keeps elements needs beside its parameters: of a snapshot.
pub(super) struct KeptPart {
    /// Tells apart what is kept: of a cache, where it stands as well.
    fingerprint: String,
    #[cfg_attr(
        not(feature = "saved"),
        expect(dead_code, reason = "nothing can be kept in files")
    )]
    shard: Option<Arc<Program>>,
    /// Absent of a cache.
    #[cfg_attr(
        not(feature = "saved"),
        expect(dead_code, reason = "nothing can be kept in files")
    )]
    reader: Option<Arc<Program>>,
}

/// Prepares `kept`, which is the node `node` of `graph`.
pub(super) fn prepare(
    kept: &Kept,
    graph: &Graph,
    node: usize,
    means: &Means<'_>,
    input: &ElementSpec,
) -> Result<KeptPart, OpenError> {
    let Kept::Snapshot(snapshot) = kept else {
        let origin = graph.origin(node);
        let bytes = graph.as_defined().below(origin as usize);
        let fingerprint = bytes.map(|bytes| super::identity::fingerprint(&bytes));
        return Ok(KeptPart {
            // What is too large to be encoded was never a definition.
            fingerprint: format!("{}/{origin}", fingerprint.unwrap_or_default()),
            shard: None,
            reader: None,
        });
    };
    // What is declared of functions says nothing of what is computed.
    let defined = graph.as_defined().resolved(means.functions)?;
    let bytes = defined.below(graph.origin(node) as usize);
    let bytes = bytes.map_err(|error| ExecError::new(ErrorKind::Caller, "snapshot", error.to_string()))?;
    let fingerprint = super::identity::fingerprint(&bytes);
    let shard = snapshot.shard.as_ref();
    let path = crate::graph::path_spec()?;
    let reader = match &snapshot.reader {
        Some(reader) => body_of(reader, means, Some(&path))?,
        None => body_of(&crate::graph::by_turns(input.clone())?, means, Some(&path))?,
    };
    Ok(KeptPart {
        fingerprint,
        shard: shard
            .map(|shard| body_of(shard, means, Some(input)))
            .transpose()?,
        reader: Some(reader),
    })
}

/// The operation `kept` over `input`, whose elements are of `spec`.
#[cfg(feature = "saved")]
pub(super) fn open(
    kept: &Kept,
    part: &KeptPart,
    spec: &ElementSpec,
    input: Input,
    shared: &Shared,
) -> Result<Input, ExecError> {
    use crate::graph::{Cache, Packing};

    Ok(match kept {
        Kept::Cache(Cache {
            path: None,
            bytes_max,
        }) => Box::new(ops::Cache::new(*bytes_max, place(part, shared), input, shared)),
        Kept::Cache(Cache { path: Some(path), .. }) => {
            permitted("cache", path, shared)?;
            let keeping = Keeping::new("cache", Path::new(path), spec.clone(), Packing::None);
            Box::new(ops::FileCache::new(keeping, input))
        }
        Kept::Snapshot(snapshot) => {
            let reader = part.reader.as_ref();
            let reader = reader.ok_or_else(|| super::program::unprepared("snapshot"))?;
            let shard = part.shard.as_ref().map(|shard| shard.chain(shared)).transpose()?;
            permitted("snapshot", &snapshot.path, shared)?;
            let path = Path::new(&snapshot.path).join(&part.fingerprint);
            let keeping = Keeping::new("snapshot", &path, spec.clone(), snapshot.packing);
            let reader = ops::Body::program(reader, shared);
            Box::new(ops::Snapshot::new(keeping, shard, reader, input, shared))
        }
    })
}

/// Whether elements may be kept in this folder.
#[cfg(feature = "saved")]
fn permitted(op: &'static str, path: &str, shared: &Shared) -> Result<(), ExecError> {
    let permitted = shared.storage.permits(path);
    permitted.map_err(|error| ExecError::new(error.kind(), op, error.to_string()))
}

/// The place of a memory cache among those that outlive the execution.
fn place(part: &KeptPart, shared: &Shared) -> Option<CachePlace> {
    let caches = shared.caches.as_ref();
    caches.map(|caches| caches.place(part.fingerprint.clone()))
}

/// The operation `kept` over `input`: of this build, in memory only.
#[cfg(not(feature = "saved"))]
pub(super) fn open(
    kept: &Kept,
    part: &KeptPart,
    _: &ElementSpec,
    input: Input,
    shared: &Shared,
) -> Result<Input, ExecError> {
    match kept {
        Kept::Cache(cache) if cache.path.is_none() => {
            let place = place(part, shared);
            Ok(Box::new(ops::Cache::new(cache.bytes_max, place, input, shared)))
        }
        Kept::Cache(_) | Kept::Snapshot(_) => Err(super::program::unprepared(kept.op_name())),
    }
}
