//! The table of all operations.
//!
//! Owns the one line that each operation has outside of its own folder. The table does not know what
//! any operation does.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::exec::program::Prepare;
use crate::exec::room::Room;
use crate::exec::{ExecContext, Executor, OpenError};
use crate::graph::codec::Decode;
use crate::graph::{Dataset, Graph, GraphError};

/// The table entries of all operations, in no particular order.
const ROOMS: &[&Room] = &[
    &super::argument::exec::ROOM,
    &super::assert_cardinality::exec::ROOM,
    &super::batch::exec::ROOM,
    &super::bucket::exec::ROOM,
    &super::cache::exec::ROOM,
    &super::choose::exec::ROOM,
    &super::chunks::exec::ROOM,
    &super::concatenate::exec::ROOM,
    &super::counter::exec::ROOM,
    &super::enumerate::exec::ROOM,
    #[cfg(test)]
    &super::every::exec::ROOM,
    &super::files::exec::ROOM,
    &super::filter::exec::ROOM,
    &super::flat_map::exec::ROOM,
    &super::group_by_window::exec::ROOM,
    &super::ignore_errors::exec::ROOM,
    &super::interleave::exec::ROOM,
    &super::map::exec::ROOM,
    &super::options::exec::ROOM,
    &super::pack_sequences::exec::ROOM,
    &super::padded_batch::exec::ROOM,
    &super::prefetch::exec::ROOM,
    &super::ragged_batch::exec::ROOM,
    &super::random::exec::ROOM,
    &super::range::exec::ROOM,
    &super::read::exec::ROOM,
    &super::rebatch::exec::ROOM,
    &super::reduce::exec::ROOM,
    &super::rejection_resample::exec::ROOM,
    &super::repeat::exec::ROOM,
    &super::sample::exec::ROOM,
    &super::scan::exec::ROOM,
    &super::service::exec::ROOM,
    &super::shard::exec::ROOM,
    &super::shuffle::exec::ROOM,
    &super::shuffle_and_repeat::exec::ROOM,
    &super::skip::exec::ROOM,
    &super::snapshot::exec::ROOM,
    &super::source::exec::ROOM,
    &super::statistics::exec::ROOM,
    &super::take::exec::ROOM,
    &super::take_while::exec::ROOM,
    &super::tensor_slices::exec::ROOM,
    &super::tensors::exec::ROOM,
    &super::unbatch::exec::ROOM,
    &super::unique::exec::ROOM,
    &super::window::exec::ROOM,
    &super::write_chunk::exec::ROOM,
    &super::zip::exec::ROOM,
];

/// Returns the names of all operations, in no particular order.
pub fn operations() -> impl Iterator<Item = &'static str> {
    ROOMS
        .iter()
        .flat_map(|room| room.names)
        .flat_map(|names| names.iter())
        .copied()
}

fn room(name: &str) -> Option<&'static Room> {
    let has_name = |room: &&&Room| room.names.iter().any(|names| names.contains(&name));
    ROOMS.iter().find(has_name).copied()
}

pub(crate) fn decode_of(name: &str) -> Option<Decode> {
    room(name).map(|room| room.decode)
}

pub(crate) fn prepare_of(name: &str) -> Option<Prepare> {
    room(name).map(|room| room.prepare)
}

impl Dataset {
    /// Makes a dataset from the operation called `name`, with its `parameters` by name, over `inputs`.
    /// A source has no inputs.
    ///
    /// Serves front ends in other languages, so that a new operation needs no code
    /// there. [`Dataset::graph`] later checks the values of the parameters and the number of inputs.
    ///
    /// # Errors
    /// [`OperationError`] if the operation is unknown, or if a parameter is missing, unknown or of a
    /// wrong type.
    pub fn operation(
        name: &str,
        parameters: Map<String, Value>,
        inputs: impl IntoIterator<Item = Dataset>,
    ) -> Result<Dataset, OperationError> {
        let owned = || name.to_owned();
        let room = room(name).ok_or_else(|| OperationError::Unknown { name: owned() })?;
        let named = room
            .named
            .ok_or_else(|| OperationError::TakesMore { name: owned() })?;
        named(name, parameters, inputs.into_iter().collect()).map_err(|reason| OperationError::Parameters {
            name: owned(),
            reason,
        })
    }
}

/// The reason why an operation cannot be made by name. The caller made the mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OperationError {
    /// No operation has this name.
    #[error("there is no operation {name:?}")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The operation takes functions or datasets as parameters.
    #[error("the operation {name:?} takes functions or datasets as parameters, so it cannot be made by name")]
    TakesMore {
        /// The name of the operation.
        name: String,
    },
    /// A parameter is missing, unknown or of a wrong type.
    #[error("{name}: {reason}")]
    Parameters {
        /// The name of the operation.
        name: String,
        /// The reason why the parameters are refused.
        reason: String,
    },
}

impl Graph {
    /// Decodes a graph from `bytes` and checks the graph like [`Graph::new`] does.
    ///
    /// # Errors
    /// [`GraphError`] if the bytes name an unknown operation or break a rule for graphs. An unknown
    /// operation stops the decoding at once.
    pub fn from_bytes(bytes: &[u8]) -> Result<Graph, GraphError> {
        Graph::decoded(bytes, decode_of)
    }
}

impl Executor {
    /// Prepares `graph` and opens its sources. Blocks on storage if `context` has neither a plan nor
    /// splits.
    ///
    /// # Errors
    /// [`OpenError`] names the function, file or setting that is unknown, missing or unsuitable.
    pub fn open(graph: &Graph, context: ExecContext) -> Result<Executor, OpenError> {
        Executor::open_with(graph, context, prepare_of)
    }
}
