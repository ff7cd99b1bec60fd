//! The shutdown of the service: all processes are told, and nothing new begins. The dispatcher ends when
//! all processes have left, or after its quiet period.
//!
//! The shutdown is not stored (C12.4): a dispatcher that starts on the same records serves them as before.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{ClientPush, WorkerPush};
use super::addresses::NAME_BYTES_MAX;
use super::closing::Closing;
use super::event::Request;
use super::happened::ServiceEventKind;
use super::machine::Dispatcher;
use super::moment::Moment;
use super::record::Answer;
use crate::error::Error;
use crate::id::{ClientId, SessionId};

impl Dispatcher {
    /// Begins the shutdown, and tells every process who asked for the shutdown. A later request changes
    /// nothing: the first process that asked is named (C12.1, C12.2).
    pub(super) fn shut_down(&mut self, mut by: String) -> Result<(), Error> {
        if self.closing.is_some() {
            return Ok(());
        }
        by.truncate(by.floor_char_boundary(NAME_BYTES_MAX));
        let text = format!("The service is shut down by {by}: nothing new begins.");
        self.state.tell(ServiceEventKind::ShutDown, text);
        for worker in self.state.tables.workers.living().collect::<Vec<_>>() {
            self.state
                .push_worker(worker, WorkerPush::ShutDown { by: by.clone() });
        }
        let clients: Vec<_> = self.state.tables.clients.values().map(|row| row.id).collect();
        for client in clients {
            self.state
                .push_client(client, ClientPush::ShutDown { by: by.clone() });
        }
        let until = self.state.now + self.state.config.shutdown_quiet_period;
        let closing = Closing { by, until };
        let error = closing.refusal();
        self.closing = Some(closing);
        for opener in self.state.tables.iterations.take_all_openers() {
            self.answer(opener.session, opener.number, Answer::Refused(error.clone()));
        }
        Ok(())
    }

    /// Refuses a request that begins something new, once the shutdown has begun (C12.2).
    pub(super) fn refuse_new(&self, request: &Request) -> Result<(), Error> {
        let begins = match request {
            Request::RegisterDataset { .. }
            | Request::CreateJob { .. }
            | Request::OpenIteration { .. }
            | Request::RegisterWorker(_)
            | Request::DescribeTask { .. }
            | Request::LeaseSplits { .. } => true,
            Request::DescribeDataset { .. }
            | Request::ReadDefinition { .. }
            | Request::Attach { .. }
            | Request::Release { .. }
            | Request::Acknowledge { .. }
            | Request::SplitsDone { .. }
            | Request::SplitsWaiting(..)
            | Request::TaskDrained { .. }
            | Request::RoundReady { .. }
            | Request::VerdictHeard { .. }
            | Request::Status
            | Request::Shutdown { .. }
            | Request::LeaveWorker
            | Request::DrainWorker
            | Request::ReturnSplits { .. }
            | Request::SplitsProduced { .. }
            | Request::SplitsMissed(..)
            | Request::SplitsShared(..)
            | Request::FinishTask { .. }
            | Request::SuspectWorker { .. }
            | Request::FailTask { .. } => false,
        };
        match &self.closing {
            Some(closing) if begins => Err(closing.refusal()),
            Some(_) | None => Ok(()),
        }
    }

    /// Attaches a client, and tells the client if the service is shutting down.
    pub(super) fn attach(&mut self, session: SessionId, client: ClientId) -> Result<(), Error> {
        self.state.attach(session, client)?;
        if let Some(Closing { by, .. }) = &self.closing {
            let push = ClientPush::ShutDown { by: by.clone() };
            self.state.push_client(client, push);
        }
        Ok(())
    }

    /// Returns the end of the quiet period of a shutdown; `None` without a shutdown.
    pub(super) fn closes_at(&self) -> Option<Moment> {
        self.closing.as_ref().map(|closing| closing.until)
    }

    /// Returns the name of the process that asked for the shutdown, once all workers and clients have left
    /// or the quiet period is over (C12.3). The caller then stops the dispatcher.
    pub fn closed_by(&self) -> Option<&str> {
        let Closing { by, until } = self.closing.as_ref()?;
        let is_deserted =
            self.state.tables.clients.len() == 0 && self.state.tables.workers.living_count() == 0;
        (is_deserted || self.state.now >= *until).then_some(by)
    }
}
