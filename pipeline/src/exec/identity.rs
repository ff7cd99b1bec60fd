//! The identity that a saved state belongs to. A saved position is valid only in the same graph, over the
//! same files, and with the same random draws.

use super::program::Program;
use super::random::{digest_of, mix};
use super::state::{StateError, StateReader, StateWriter};
use crate::graph::Graph;

/// Everything that decides which elements an executor yields, except for the registered functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The digest of the graph, or `None` if the graph's encoding exceeds its limit.
    graph: Option<u64>,
    files: u64,
    task_id: u64,
    epoch: u64,
    seed: Option<u64>,
}

impl Identity {
    /// Returns the identity of an executor of `graph`, for which `program` was prepared.
    pub(crate) fn new(
        graph: &Graph,
        program: &Program,
        task_id: u64,
        epoch: u64,
        seed: Option<u64>,
    ) -> Identity {
        Identity {
            graph: graph.to_bytes().ok().map(|bytes| digest_of(&bytes)),
            files: program
                .listings()
                .fold(0, |digest, path| mix(digest, digest_of(path.as_bytes()))),
            task_id,
            epoch,
            seed,
        }
    }

    pub(crate) fn save(&self, state: &mut StateWriter) -> Result<(), StateError> {
        let numbers = [self.graph()?, self.files, self.task_id, self.epoch];
        numbers.into_iter().try_for_each(|number| state.number(number))?;
        state.flag(self.seed.is_some())?;
        state.number(self.seed.unwrap_or(0))
    }

    /// Reads the identity with which a state was saved, and compares it with this identity.
    pub(crate) fn check(&self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        let foreign = |what| Err(StateError::Foreign { what });
        if state.number()? != self.graph()? {
            return foreign("another dataset");
        }
        if state.number()? != self.files {
            return foreign("another listing of the files");
        }
        if state.number()? != self.task_id {
            return foreign("another task");
        }
        if state.number()? != self.epoch {
            return foreign("another epoch");
        }
        let (seeded, seed) = (state.flag()?, state.number()?);
        if seeded.then_some(seed) != self.seed {
            return foreign("another seed");
        }
        Ok(())
    }

    fn graph(&self) -> Result<u64, StateError> {
        self.graph.ok_or_else(|| StateError::Unsupported {
            op: "dataset".to_owned(),
            reason: "the graph exceeds the size limit of its encoding",
        })
    }
}

/// Returns a name for `bytes` that is short enough for a file name and long enough to be unique in practice.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    let digest = digest_of(bytes);
    let folded = bytes
        .iter()
        .rev()
        .fold(digest, |folded, byte| mix(folded, u64::from(*byte)));
    format!("{digest:016x}{folded:016x}")
}
