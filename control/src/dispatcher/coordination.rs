//! Coordinated reads: which task takes part in which rounds, the same for every consumer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::machine::Dispatcher;
use crate::error::Error;
use crate::id::{ClientId, SessionId, TaskId};

impl Dispatcher {
    /// A consumer can take a late task in from round `earliest` on.
    pub(super) fn round_ready(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        _earliest: u64,
    ) -> Result<(), Error> {
        let iteration = self.client(session, client)?.iteration;
        match self.tables.tasks.get(&task) {
            Some(row) if row.iteration != iteration => Err(Error::invalid(format!(
                "task {task} is not of client {client}'s iteration"
            ))),
            // Without one, its worker is gone, and so is the question.
            Some(_) | None => Ok(()),
        }
    }
}
