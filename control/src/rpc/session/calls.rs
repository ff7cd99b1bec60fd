//! Requests of a session: numbered where a repetition would matter, and repeated over new connections until
//! the dispatcher answers (C1.5).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_link::{Endpoint, HostPorts};
use parking_lot::Mutex;
use quinn::Connection;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::SessionConfig;
use super::contact::Contact;
use super::driver;
use super::paces::Paces;
use super::state::{LinkState, SessionEvent, SessionShared};
use crate::error::Error;
use crate::id::{BootId, ClientId, RequestNumber, SessionId};
use crate::job::DeploymentMode;
use crate::rpc::frame::{self, ANSWER_BYTES_MAX, FrameError, SizeClass};
use crate::rpc::wire::{CLOSE_GOODBYE, Envelope, WireReply, WireRequest, WireResponse};

/// The pause before a request is repeated, if the session has not yet noticed that its connection is lost.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The session of one process. Dropping the value closes its connection.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<SessionShared>,
    driver: JoinHandle<()>,
}

/// The number of an unanswered request. Dropping the value settles the number, so the request must not be
/// repeated afterwards.
struct OpenNumber<'a> {
    number: RequestNumber,
    shared: &'a SessionShared,
}

impl Session {
    /// Starts a session with a random id. The session connects by itself, and sends its events in their
    /// order.
    pub(crate) fn start(
        endpoint: Endpoint,
        address: HostPorts,
        config: SessionConfig,
        events: mpsc::Sender<SessionEvent>,
    ) -> Session {
        let (state, _) = watch::channel(LinkState::Waiting(None));
        let shared = Arc::new(SessionShared {
            id: SessionId(rand::random()),
            endpoint,
            address,
            leader: Mutex::default(),
            config,
            state,
            clients: Mutex::default(),
            paces: Mutex::default(),
            shut_down_by: Mutex::default(),
            tries: Mutex::default(),
            heard: Mutex::default(),
            liveness: Mutex::default(),
            confirmed: Mutex::default(),
            client_timeout: Mutex::default(),
            deployment_mode: Mutex::default(),
            numbers: Mutex::default(),
            settled: Notify::new(),
        });
        let driver = tokio::spawn(driver::drive(Arc::clone(&shared), events));
        Session { shared, driver }
    }

    pub(crate) fn clients(&self) -> &Mutex<BTreeSet<ClientId>> {
        &self.shared.clients
    }

    /// Returns the measurements of tasks and clients for the next heartbeats.
    pub(crate) fn paces(&self) -> &Mutex<Paces> {
        &self.shared.paces
    }

    /// Returns when the latest answered heartbeat was sent.
    pub(crate) fn heard(&self) -> Option<Instant> {
        *self.shared.heard.lock()
    }

    /// Returns the silence after which the dispatcher gives this process up; zero before the first welcome.
    pub(crate) fn liveness(&self) -> Duration {
        *self.shared.liveness.lock()
    }

    /// Returns when the dispatcher may have released the clients of this process, unless it confirms them
    /// earlier (C4.4). The time is a twentieth of the client timeout early, because clocks differ. `None`
    /// while the timeout is unknown or no heartbeat has been confirmed.
    pub(crate) fn leases_end(&self) -> Option<Instant> {
        let timeout = (*self.shared.client_timeout.lock())?;
        let confirmed = (*self.shared.confirmed.lock())?;
        Some(confirmed + timeout - timeout / 20)
    }

    /// Returns the placement of trainers and workers; unspecified before the first welcome.
    pub(crate) fn deployment_mode(&self) -> DeploymentMode {
        *self.shared.deployment_mode.lock()
    }

    pub(crate) fn config(&self) -> &SessionConfig {
        &self.shared.config
    }

    /// Waits until the session is connected. Cancel-safe.
    ///
    /// # Errors
    /// The deadline passed, or no further attempt can succeed; the message names the address.
    pub(crate) async fn connected(&self, deadline: Duration) -> Result<BootId, Error> {
        let (_, boot) = self.connection(Instant::now() + deadline).await?;
        Ok(boot)
    }

    /// Returns the dispatcher's address in its original text.
    pub(crate) fn address(&self) -> String {
        self.shared.address.to_string()
    }

    /// Returns a view that reports when the dispatcher becomes reachable or unreachable.
    pub(crate) fn contact(&self) -> Contact {
        Contact::new(self.shared.state.subscribe())
    }

    /// Returns the error with which the session has failed for good, if it has.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &*self.shared.state.borrow() {
            LinkState::Failed(error) => Some(error.clone()),
            LinkState::Up(..) | LinkState::Waiting(_) => None,
        }
    }

    /// Returns whether the dispatcher has announced that the service shuts down.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down_by().is_some()
    }

    /// Returns the name of the process that asked for the shutdown, if the dispatcher has announced one.
    pub(crate) fn shut_down_by(&self) -> Option<String> {
        self.shared.shut_down_by.lock().clone()
    }

    /// Waits until the session has no connection. Cancel-safe.
    pub(crate) async fn down(&self) {
        let mut states = self.shared.state.subscribe();
        let is_down = |state: &LinkState| match state {
            LinkState::Up(connection, _) => connection.close_reason().is_some(),
            LinkState::Waiting(_) | LinkState::Failed(_) => true,
        };
        // The sender belongs to this session, so the channel stays open.
        states.wait_for(is_down).await.ok();
    }

    /// Fails the session for good: waiting and later requests return this error.
    pub(crate) fn fail(&self, error: Error) {
        if let LinkState::Up(connection, _) = self.shared.state.send_replace(LinkState::Failed(error)) {
            connection.close(CLOSE_GOODBYE.into(), b"the process has given up");
        }
    }

    /// Repeats a request until the dispatcher answers. If the future is dropped, the dispatcher may or may
    /// not have carried out the request.
    ///
    /// # Errors
    /// The dispatcher's refusal; no answer before the deadline; or the session has failed.
    pub(crate) async fn call(&self, request: WireRequest, deadline: Duration) -> Result<WireReply, Error> {
        let until = Instant::now() + deadline;
        let open = if is_numbered(&request) {
            let opened = tokio::time::timeout_at(until, OpenNumber::take(&self.shared)).await;
            Some(opened.map_err(|_| self.late(deadline))?)
        } else {
            None
        };
        let envelope = Envelope {
            number: open.as_ref().map(|open| open.number),
            settled_below: self.shared.numbers.lock().settled_below(),
            request,
        };
        let class = if envelope.request.is_large() {
            SizeClass::Large
        } else {
            SizeClass::Small
        };
        let mut bytes = vec![class.code()];
        bytes.extend(frame::encode(&envelope));
        let bytes = bytes::Bytes::from(bytes);
        loop {
            let (connection, _) = self.connection(until).await?;
            match tokio::time::timeout_at(until, exchange(&connection, bytes.clone())).await {
                Ok(Ok(response)) => return response.result,
                Ok(Err(FrameError::Lost(reason))) => {
                    tracing::debug!(reason, "repeats a request, because the connection was lost");
                    let pause = tokio::time::sleep(RETRY_PAUSE);
                    tokio::select! {
                        _ = connection.closed() => {}
                        () = pause => {}
                    }
                }
                Ok(Err(error @ (FrameError::TooLong { .. } | FrameError::Malformed(_)))) => {
                    let address = &self.shared.address;
                    return Err(Error::internal(format!(
                        "the answer of {address} is invalid: {error}"
                    )));
                }
                Err(_) => return Err(self.late(deadline)),
            }
        }
    }

    /// Sends a request once, on the current connection. Serves messages that have no meaning for a
    /// dispatcher that was unreachable when they were due. The request has no number.
    ///
    /// # Errors
    /// The dispatcher's refusal; no connection, or a connection that is lost before the answer; or no
    /// answer before the deadline.
    pub(crate) async fn call_now(
        &self,
        request: WireRequest,
        deadline: Duration,
    ) -> Result<WireReply, Error> {
        let (connection, _) = self.connection(Instant::now()).await?;
        let envelope = Envelope {
            number: None,
            settled_below: self.shared.numbers.lock().settled_below(),
            request,
        };
        let mut bytes = vec![SizeClass::Small.code()];
        bytes.extend(frame::encode(&envelope));
        match tokio::time::timeout(deadline, exchange(&connection, bytes.into())).await {
            Ok(Ok(response)) => response.result,
            Ok(Err(error)) => Err(Error::unavailable(error.to_string())),
            Err(_) => Err(self.late(deadline)),
        }
    }

    fn late(&self, deadline: Duration) -> Error {
        let address = &self.shared.address;
        let seconds = deadline.as_secs_f64();
        Error::deadline(format!("no answer from {address} within {seconds} s"))
    }

    async fn connection(&self, until: Instant) -> Result<(Connection, BootId), Error> {
        let mut states = self.shared.state.subscribe();
        let usable = states.wait_for(|state| match state {
            LinkState::Up(connection, _) => connection.close_reason().is_none(),
            LinkState::Failed(_) => true,
            LinkState::Waiting(_) => false,
        });
        let state = tokio::time::timeout_at(until, usable).await;
        let result = match state {
            Ok(Ok(state)) => Some(state.clone()),
            Ok(Err(_)) | Err(_) => None,
        };
        match result {
            Some(LinkState::Up(connection, boot)) => Ok((connection, boot)),
            Some(LinkState::Failed(error)) => Err(error),
            Some(LinkState::Waiting(_)) | None => {
                let last = match &*self.shared.state.borrow() {
                    LinkState::Waiting(last) => last.clone(),
                    LinkState::Failed(error) => return Err(error.clone()),
                    LinkState::Up(..) => Some("the connection was lost".to_owned()),
                };
                let address = self.shared.address.to_string();
                let tries = self.shared.tries.lock();
                let said = tries.ended(Instant::now(), &address, last.as_deref());
                Err(Error::unavailable(said))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
        if let LinkState::Up(connection, _) = &*self.shared.state.borrow() {
            connection.close(CLOSE_GOODBYE.into(), b"the process is done");
        }
        // Callers that still wait receive an error.
        self.shared.state.send_if_modified(|state| match state {
            LinkState::Failed(_) => false,
            LinkState::Up(..) | LinkState::Waiting(_) => {
                *state = LinkState::Failed(Error::unavailable("this side has closed its session"));
                true
            }
        });
    }
}

impl<'a> OpenNumber<'a> {
    /// Waits until the first open request is close enough for another number. Cancel-safe.
    async fn take(shared: &'a SessionShared) -> OpenNumber<'a> {
        loop {
            // The notification is created before the check, so that no number is settled unseen in between.
            let settled = shared.settled.notified();
            let next = shared.numbers.lock().open_next();
            if let Some(number) = next {
                return OpenNumber { number, shared };
            }
            settled.await;
        }
    }
}

impl Drop for OpenNumber<'_> {
    fn drop(&mut self) {
        self.shared.numbers.lock().settle(self.number);
        self.shared.settled.notify_waiters();
    }
}

async fn exchange(connection: &Connection, request: bytes::Bytes) -> Result<WireResponse, FrameError> {
    let lost = |error: &dyn std::fmt::Display| FrameError::Lost(error.to_string());
    let (mut send, mut recv) = connection.open_bi().await.map_err(|error| lost(&error))?;
    // The dispatcher may answer a refused request before it has read the request completely.
    if send.write_chunk(request).await.is_ok() {
        send.finish().ok();
    }
    let bytes = frame::read_rest(&mut recv, ANSWER_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Err(FrameError::Lost("the stream ended without an answer".to_owned()));
    }
    frame::decode(&bytes)
}

/// Returns the same as [`Request::is_numbered`](crate::dispatcher::Request::is_numbered), for wire types.
fn is_numbered(request: &WireRequest) -> bool {
    match request {
        WireRequest::RegisterDataset { .. }
        | WireRequest::CreateJob { .. }
        | WireRequest::OpenIteration { .. }
        | WireRequest::Release { .. }
        | WireRequest::LeaseSplits { .. } => true,
        WireRequest::DescribeDataset { .. }
        | WireRequest::ReadDefinition { .. }
        | WireRequest::Attach { .. }
        | WireRequest::Acknowledge { .. }
        | WireRequest::SplitsDone { .. }
        | WireRequest::SplitsWaiting(..)
        | WireRequest::TaskDrained { .. }
        | WireRequest::SuspectWorker { .. }
        | WireRequest::RoundReady { .. }
        | WireRequest::VerdictHeard { .. }
        | WireRequest::Status
        | WireRequest::Shutdown { .. }
        | WireRequest::RegisterWorker(_)
        | WireRequest::LeaveWorker
        | WireRequest::DrainWorker
        | WireRequest::DescribeTask { .. }
        | WireRequest::ReturnSplits { .. }
        | WireRequest::SplitsProduced { .. }
        | WireRequest::SplitsMissed(..)
        | WireRequest::SplitsShared(..)
        | WireRequest::FinishTask { .. }
        | WireRequest::FailTask { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{DatasetId, JobId, TaskId};
    use crate::job::{JobParameters, Policy};
    use crate::planner::{Cardinality, DatasetFacts};
    use crate::split::Seen;
    use crate::whereabouts::Whereabouts;

    /// Tests that both sides agree on the numbered requests (C1.5).
    #[test]
    fn both_ends_agree_on_which_requests_are_numbered() {
        let (task, client) = (TaskId(1), ClientId(1));
        let parameters = JobParameters::new(DatasetId::automatic(1000), Policy::Off);
        let requests = [
            WireRequest::RegisterDataset {
                id: None,
                definition: vec![].into(),
            },
            WireRequest::DescribeDataset { id: "1".to_owned() },
            WireRequest::ReadDefinition { id: "1".to_owned() },
            WireRequest::create_job(None, &parameters),
            WireRequest::OpenIteration {
                job: JobId(1),
                repetition: 0,
                consumer: None,
                whereabouts: Whereabouts::default(),
            },
            WireRequest::Attach { client },
            WireRequest::Release { client },
            WireRequest::Acknowledge {
                client,
                task,
                seen: Seen::default(),
            },
            WireRequest::SplitsDone {
                client,
                task,
                leases: vec![],
            },
            WireRequest::TaskDrained { client, task },
            WireRequest::RoundReady {
                client,
                task,
                earliest: 0,
            },
            WireRequest::VerdictHeard { client, task },
            suspect(client),
            WireRequest::Status,
            WireRequest::Shutdown { who: String::new() },
            WireRequest::LeaveWorker,
            WireRequest::DrainWorker,
            WireRequest::DescribeTask { task },
            WireRequest::LeaseSplits {
                task,
                source: 0,
                repetition: 0,
                want: 1,
                pace: None,
                is_idle: false,
            },
            WireRequest::ReturnSplits { task, leases: vec![] },
            WireRequest::SplitsProduced { task, leases: vec![] },
            WireRequest::FinishTask {
                task,
                delivered: true,
                exhausted: true,
                cut_short: false,
            },
            WireRequest::FailTask {
                task,
                message: String::new(),
                element: None,
            },
        ];
        for request in requests {
            let here = is_numbered(&request);
            let there = request.clone().into_domain(Some(facts())).unwrap();
            assert_eq!(here, there.is_numbered(), "{request:?}");
        }
    }

    fn suspect(client: ClientId) -> WireRequest {
        let address = String::new();
        WireRequest::SuspectWorker(client, address)
    }

    fn facts() -> DatasetFacts {
        DatasetFacts {
            spec: vec![],
            cardinality: Cardinality::Unknown,
            splittable: Ok(()),
            aligned: Ok(()),
            not_by_files: None,
            has_shard_hint: false,
            compression: None,
        }
    }
}
