//! The preparation of `snapshot`: computes the fingerprint of the dataset, and prepares the shard and
//! reader functions.

use std::sync::Arc;

use super::definition;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::identity::fingerprint;
use crate::exec::iterate::Input;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing, Program};
use crate::exec::room::Room;

/// The entry of `snapshot` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["snapshot"]],
    decode: definition::decode,
    named: Some(definition::named),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Snapshot>()?;
    let input = preparing.input()?;
    if !cfg!(feature = "saved") {
        let (op, feature) = ("snapshot", "saved");
        return Err(OpenError::Feature { op, feature });
    }
    let (graph, means) = (preparing.graph, preparing.means);
    // The fingerprint must not depend on declared signatures, so the functions' real signatures are
    // resolved first.
    let defined = graph.as_defined().resolved(means.functions)?;
    let bytes = defined.below(graph.origin(preparing.node) as usize);
    let bytes = bytes.map_err(|error| ExecError::new(ErrorKind::Caller, "snapshot", error.to_string()))?;
    let path = definition::path_spec()?;
    let reader = match &operation.reader {
        Some(reader) => preparing.body(reader, Some(&path))?,
        None => preparing.body(&definition::by_turns(input.clone())?, Some(&path))?,
    };
    let shard = operation.shard.as_ref();
    let shard = shard.map(|shard| preparing.body(shard, Some(input)));
    Ok(Box::new(Kept {
        operation: operation.clone(),
        fingerprint: fingerprint(&bytes),
        shard: shard.transpose()?,
        reader,
    }))
}

#[cfg_attr(
    not(feature = "saved"),
    expect(dead_code, reason = "nothing can be kept in files")
)]
struct Kept {
    operation: definition::Snapshot,
    /// The fingerprint of the dataset below the operation, which names the snapshot's directory.
    fingerprint: String,
    shard: Option<Arc<Program>>,
    reader: Arc<Program>,
}

impl Prepared for Kept {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        self.open_over(opening, input, &opening.own_shared())
    }
}

impl Kept {
    #[cfg(feature = "saved")]
    fn open_over(&self, opening: &Opening<'_>, input: Input, shared: &Shared) -> Result<Input, ExecError> {
        use std::path::Path;

        use super::writing::Snapshot;
        use crate::exec::body::Body;
        use crate::exec::keeping::{Keeping, permitted};

        let shard = self.shard.as_ref().map(|shard| shard.chain(shared)).transpose()?;
        permitted("snapshot", &self.operation.path, shared)?;
        let path = Path::new(&self.operation.path).join(&self.fingerprint);
        let spec = opening.input_spec()?.clone();
        let keeping = Keeping::new("snapshot", &path, spec, self.operation.packing);
        let reader = Body::program(&self.reader, shared);
        Ok(Box::new(Snapshot::new(keeping, shard, reader, input, shared)))
    }

    #[cfg(not(feature = "saved"))]
    fn open_over(&self, _: &Opening<'_>, _: Input, _: &Shared) -> Result<Input, ExecError> {
        Err(crate::exec::program::unprepared("snapshot"))
    }
}
