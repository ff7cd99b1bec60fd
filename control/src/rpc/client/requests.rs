//! Requests for datasets, jobs, iterations and the status, over one session.

use std::sync::Arc;

use millstream_link::{Endpoint, HostPorts};
use tokio::sync::{Mutex, mpsc};

use super::inbox::{self, Inbox};
use super::iteration::IterationHandle;
use super::jobs::Jobs;
use crate::dispatcher::Status;
use crate::error::{Code, Error};
use crate::id::{ClientId, DatasetId, JobId};
use crate::job::{DeploymentMode, JobParameters};
use crate::planner::DatasetFacts;
use crate::rpc::session::{Session, SessionConfig};
use crate::rpc::wire::{WireReply, WireRequest, unexpected};

/// Maximum number of times that a collected job is requested again. A second repetition helps only if jobs
/// live for milliseconds.
const ASKED_AGAIN_MAX: usize = 3;

/// Maximum number of session events that wait to be delivered.
const EVENTS_MAX: usize = 1024;

/// The facts of a registered dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetInfo {
    /// The id of the dataset.
    pub id: DatasetId,
    /// The planner's facts of the dataset.
    pub facts: DatasetFacts,
}

/// A client of the dispatcher for a process that reads. Reconnects when its connection is lost.
///
/// Every method waits for an answer, with reconnections, for at most the request deadline of
/// its [`SessionConfig`]. Dropping a method's future does not undo the request: the dispatcher may still
/// carry it out.
#[derive(Debug)]
pub struct Client {
    session: Arc<Session>,
    inbox: Arc<Inbox>,
    /// The known jobs. The lock is held while a job is requested again, so that tasks that open the job
    /// together get the same job.
    jobs: Mutex<Jobs>,
}

impl Client {
    /// Connects within a tokio runtime, and waits for a dispatcher that has not started yet.
    ///
    /// # Errors
    /// [`Code::Unavailable`] at the deadline, naming the address. Errors that waiting cannot cure, such as
    /// a wrong key, are returned at once.
    pub async fn connect(
        endpoint: Endpoint,
        dispatcher: impl Into<HostPorts>,
        config: SessionConfig,
    ) -> Result<Client, Error> {
        let deadline = config.connect_deadline;
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let session = Arc::new(Session::start(endpoint, dispatcher.into(), config, events));
        let inbox = Arc::<Inbox>::default();
        // The task ends with the session, which ends with the last handle of this client and its
        // iterations.
        tokio::spawn(inbox::sort(Arc::downgrade(&session), Arc::clone(&inbox), heard));
        let client = Client {
            session,
            inbox,
            jobs: Mutex::default(),
        };
        client.session.connected(deadline).await?;
        Ok(client)
    }

    /// Registers a dataset, under this id or under an id that the dispatcher chooses.
    ///
    /// # Errors
    /// The definition cannot be analysed, the id belongs to a different dataset, or this process may not
    /// submit datasets.
    pub async fn register_dataset(
        &self,
        id: Option<DatasetId>,
        definition: Vec<u8>,
    ) -> Result<DatasetId, Error> {
        let request = WireRequest::RegisterDataset {
            id: id.map(|id| id.as_str().to_owned()),
            definition: definition.into(),
        };
        let WireReply::Dataset(id) = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok(id)
    }

    /// Returns the facts of a dataset.
    ///
    /// # Errors
    ///
    /// No dataset has this id.
    pub async fn dataset(&self, id: &DatasetId) -> Result<DatasetInfo, Error> {
        let request = WireRequest::DescribeDataset {
            id: id.as_str().to_owned(),
        };
        let WireReply::DatasetInfo { id, facts } = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok(DatasetInfo { id, facts })
    }

    /// Returns the definition of a dataset, as the bytes that were registered.
    ///
    /// # Errors
    /// No dataset has this id, or this process may not submit datasets.
    pub async fn definition(&self, id: &DatasetId) -> Result<Vec<u8>, Error> {
        let request = WireRequest::ReadDefinition {
            id: id.as_str().to_owned(),
        };
        let WireReply::Definition(definition) = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok(definition.into())
    }

    /// Returns the job of this name, and creates the job if it does not exist. Without a name, creates a
    /// new job for this process alone.
    ///
    /// # Errors
    /// The named job differs, with all differences in the message; or this version does not support the
    /// parameters.
    pub async fn find_or_create_job(
        &self,
        name: Option<String>,
        parameters: &JobParameters,
    ) -> Result<JobId, Error> {
        let id = self.ask_for_job(name.clone(), parameters).await?;
        self.jobs.lock().await.note(id, name, parameters.clone());
        Ok(id)
    }

    /// Returns the parameters with which this process asked for a job. `None` if the process has since
    /// asked for a thousand other jobs.
    pub async fn asked_for(&self, job: JobId) -> Option<JobParameters> {
        let jobs = self.jobs.lock().await;
        jobs.get(job).map(|known| known.parameters.clone())
    }

    /// Returns whether other processes may know of a job. Only a job that this process created without a
    /// name is private.
    pub async fn is_shared(&self, job: JobId) -> bool {
        let jobs = self.jobs.lock().await;
        jobs.get(job).is_none_or(|known| known.name.is_some())
    }

    /// Opens one iteration of a job as a client. `consumer` is the client's number in a coordinated read,
    /// and `None` in any other job. An iteration that is over ends at once. If the job was collected
    /// because no client read it, the job is created again with its first parameters, and its iterations
    /// start again.
    ///
    /// # Errors
    /// The job does not exist, or its sources cannot be listed. The consumer does not exist, or has already
    /// joined. This process has no worker that the job's target workers require, or has already left the
    /// iteration.
    pub async fn open_iteration(
        &self,
        job: JobId,
        repetition: u64,
        consumer: Option<u32>,
    ) -> Result<IterationHandle, Error> {
        let mut current = self.jobs.lock().await.current(job);
        for _ in 0..ASKED_AGAIN_MAX {
            match self.open(current, repetition, consumer).await {
                Err(error) if error.code == Code::NotFound => {
                    current = self.ask_again(job, current).await?.ok_or(error)?;
                }
                opened => return opened,
            }
        }
        self.open(current, repetition, consumer).await
    }

    async fn open(
        &self,
        job: JobId,
        repetition: u64,
        consumer: Option<u32>,
    ) -> Result<IterationHandle, Error> {
        let (client, files) = self.become_client(job, repetition, consumer).await?;
        Ok(IterationHandle::open(
            Arc::clone(&self.session),
            Arc::clone(&self.inbox),
            (client, files),
        ))
    }

    /// Returns the placement of trainers and workers that the dispatcher announced.
    pub fn deployment_mode(&self) -> DeploymentMode {
        self.session.deployment_mode()
    }

    /// Returns the status of the whole dispatcher, for people.
    ///
    /// # Errors
    /// The dispatcher does not answer.
    pub async fn status(&self) -> Result<Status, Error> {
        let WireReply::Status(status) = self.call(WireRequest::Status).await? else {
            return Err(unexpected());
        };
        Ok(status)
    }

    async fn become_client(
        &self,
        job: JobId,
        repetition: u64,
        consumer: Option<u32>,
    ) -> Result<(ClientId, Option<u64>), Error> {
        let request = WireRequest::OpenIteration {
            job,
            repetition,
            consumer,
            whereabouts: self.session.config().whereabouts,
        };
        let WireReply::Client(client, files) = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok((client, files))
    }

    async fn ask_for_job(&self, name: Option<String>, parameters: &JobParameters) -> Result<JobId, Error> {
        let WireReply::Job(id) = self.call(WireRequest::create_job(name, parameters)).await? else {
            return Err(unexpected());
        };
        Ok(id)
    }

    /// Requests a job again whose latest id the dispatcher no longer knows (C3.8). `None` if this process
    /// never asked for the job.
    async fn ask_again(&self, job: JobId, gone: JobId) -> Result<Option<JobId>, Error> {
        let mut jobs = self.jobs.lock().await;
        let Some(known) = jobs.get(job).cloned() else {
            return Ok(None);
        };
        if known.current != gone {
            return Ok(Some(known.current));
        }
        let current = self.ask_for_job(known.name, &known.parameters).await?;
        tracing::info!(%job, %current, "a job that was unread for too long is created again");
        jobs.renew(job, current);
        Ok(Some(current))
    }

    /// Returns whether every later request fails: the dispatcher restarted without its memory, refuses this
    /// process, or was out of reach for too long.
    pub fn has_failed(&self) -> bool {
        self.session.failure().is_some()
    }

    /// Shuts the service down: its workers, its dispatcher, and all running reads. Waits until the
    /// dispatcher is gone. Succeeds also if another process has already asked for the shutdown.
    ///
    /// # Errors
    /// This process may not shut the service down, or the dispatcher does not answer.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let who = format!("process {}", std::process::id());
        match self.call(WireRequest::Shutdown { who }).await {
            Ok(WireReply::Done) => self.session.down().await,
            Ok(_) => return Err(unexpected()),
            // The dispatcher had no process to wait for, and stopped before its answer arrived.
            Err(_) if self.session.is_shut_down() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn call(&self, request: WireRequest) -> Result<WireReply, Error> {
        let deadline = self.session.config().request_deadline;
        self.session.call(request, deadline).await
    }
}
