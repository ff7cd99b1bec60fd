//! Datasets, jobs, iterations and the status, over one session.

use std::sync::Arc;

use millstream_link::{Endpoint, HostPort};
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

/// The number of times that a job is asked for again. More than once helps only where jobs live for
/// milliseconds.
const ASKED_AGAIN_MAX: usize = 3;

/// Events that wait to be sorted.
const EVENTS_MAX: usize = 1024;

/// The facts of a registered dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetInfo {
    /// The id.
    pub id: DatasetId,
    /// The planner's facts of the dataset.
    pub facts: DatasetFacts,
}

/// A process that reads: its connection with the dispatcher, found again when lost.
///
/// Every method waits for an answer, reconnecting if need be, for at most the request deadline of its
/// [`SessionConfig`]. None is undone by dropping its future: the request may still be carried out.
#[derive(Debug)]
pub struct Client {
    session: Arc<Session>,
    inbox: Arc<Inbox>,
    /// Held while a job is asked for again, so that those who open it together get the same one.
    jobs: Mutex<Jobs>,
}

impl Client {
    /// Connects within a tokio runtime, waiting for a dispatcher that is not there yet.
    ///
    /// # Errors
    /// [`Code::Unavailable`] at the deadline, naming the address; at once where waiting is
    /// pointless, as with a wrong key.
    pub async fn connect(
        endpoint: Endpoint,
        dispatcher: HostPort,
        config: SessionConfig,
    ) -> Result<Client, Error> {
        let deadline = config.connect_deadline;
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let session = Arc::new(Session::start(endpoint, dispatcher, config, events));
        let inbox = Arc::<Inbox>::default();
        // Ends when the session does: with the last of this client and its iterations.
        tokio::spawn(inbox::sort(Arc::downgrade(&session), Arc::clone(&inbox), heard));
        let client = Client {
            session,
            inbox,
            jobs: Mutex::default(),
        };
        client.session.connected(deadline).await?;
        Ok(client)
    }

    /// Registers a dataset: under this id, or under one that the dispatcher chooses.
    ///
    /// # Errors
    /// The definition cannot be analysed, the id belongs to a different dataset, or this process may not
    /// submit.
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

    /// The definition of a dataset, as it was registered.
    ///
    /// # Errors
    /// There is none of this id, or this process may not submit.
    pub async fn definition(&self, id: &DatasetId) -> Result<Vec<u8>, Error> {
        let request = WireRequest::ReadDefinition {
            id: id.as_str().to_owned(),
        };
        let WireReply::Definition(definition) = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok(definition.into())
    }

    /// The job of this name, created if there is none; without a name, a new job of one's own.
    ///
    /// # Errors
    /// The named job differs, with all differences in the message; or this version does not support what is
    /// asked.
    pub async fn find_or_create_job(
        &self,
        name: Option<String>,
        parameters: &JobParameters,
    ) -> Result<JobId, Error> {
        let id = self.ask_for_job(name.clone(), parameters).await?;
        self.jobs.lock().await.note(id, name, parameters.clone());
        Ok(id)
    }

    /// Returns the parameters with which this process asked for a job, unless it asked for a thousand others
    /// since.
    pub async fn asked_for(&self, job: JobId) -> Option<JobParameters> {
        let jobs = self.jobs.lock().await;
        jobs.get(job).map(|known| known.parameters.clone())
    }

    /// Returns whether other processes may know of a job: this one asked for it by a name, or did not ask for
    /// it.
    pub async fn is_shared(&self, job: JobId) -> bool {
        let jobs = self.jobs.lock().await;
        jobs.get(job).is_none_or(|known| known.name.is_some())
    }

    /// Becomes a client of one pass of a job: `consumer` says which one, if it has several that read in step,
    /// and only then. A pass that is over ends at once. A job that was collected meanwhile, since nobody read
    /// it for long, is asked for again as it was asked for first; its passes then start again.
    ///
    /// # Errors
    /// There is no such job, its sources cannot be listed, it has no such consumer, or that one has begun
    /// already; or this process has no worker that the job asks for, or has read the pass before.
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
        let client = self.become_client(job, repetition, consumer).await?;
        Ok(IterationHandle::open(
            Arc::clone(&self.session),
            Arc::clone(&self.inbox),
            client,
        ))
    }

    /// Returns the way in which trainers and workers are placed, as the dispatcher says.
    pub fn deployment_mode(&self) -> DeploymentMode {
        self.session.deployment_mode()
    }

    /// Everything the dispatcher knows, for people.
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
    ) -> Result<ClientId, Error> {
        let request = WireRequest::OpenIteration {
            job,
            repetition,
            consumer,
            whereabouts: self.session.config().whereabouts,
        };
        let WireReply::Client(client) = self.call(request).await? else {
            return Err(unexpected());
        };
        Ok(client)
    }

    async fn ask_for_job(&self, name: Option<String>, parameters: &JobParameters) -> Result<JobId, Error> {
        let WireReply::Job(id) = self.call(WireRequest::create_job(name, parameters)).await? else {
            return Err(unexpected());
        };
        Ok(id)
    }

    /// C3.8: asks for a job again whose id of late is not known any more. `None` if this process never asked
    /// for it.
    async fn ask_again(&self, job: JobId, gone: JobId) -> Result<Option<JobId>, Error> {
        let mut jobs = self.jobs.lock().await;
        let Some(known) = jobs.get(job).cloned() else {
            return Ok(None);
        };
        if known.current != gone {
            return Ok(Some(known.current));
        }
        let current = self.ask_for_job(known.name, &known.parameters).await?;
        tracing::info!(%job, %current, "a job that nobody read for long begins again");
        jobs.renew(job, current);
        Ok(Some(current))
    }

    /// Ends the service: its workers, its dispatcher, and whatever its clients read. Waits until the
    /// dispatcher is gone. It does not matter whether somebody else has asked for it.
    ///
    /// # Errors
    /// This process may not end it, or the dispatcher does not answer.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let who = format!("process {}", std::process::id());
        match self.call(WireRequest::Shutdown { who }).await {
            Ok(WireReply::Done) => self.session.down().await,
            Ok(_) => return Err(unexpected()),
            // Nothing was left to be waited for, not even this answer.
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
