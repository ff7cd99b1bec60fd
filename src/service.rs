//! A trainer's connection to a service, which registers and reads datasets.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{Reader, ReaderConfig, discover};
use millstream_control::rpc::{Client, SessionConfig};
use millstream_control::{
    Code, DatasetId, DeploymentMode, Error, JobId, JobParameters, Status, TargetWorkers,
};
use millstream_dataplane::worker::TRAINER_ID_BYTES_MAX;
use millstream_link::{
    CredentialsError, Endpoint, EndpointConfig, HostPorts, KeyMaterial, Lane, LaneError, LoadedKey, Role,
};
use millstream_pipeline::exec::Functions;
use millstream_pipeline::graph::{Dataset, Graph, GraphError};
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::connect::AutoConnector;
use crate::local::LocalWorkers;
use crate::metadata::DatasetMetadata;
use crate::request::ReadRequest;

/// The time for which [`Service::close`] waits for the dispatcher.
const GOODBYE: Duration = Duration::from_secs(1);

/// The settings of a trainer's connection to a service.
#[derive(Debug, Clone, Default)]
pub struct ServiceConfig {
    /// The limits and timeouts of the network.
    pub endpoint: EndpointConfig,
    /// The timeouts of the session with the dispatcher.
    pub session: SessionConfig,
    /// The workers of this process, which are read without a network. The target `local` means these workers.
    pub local: LocalWorkers,
    /// `true` if workers in other processes are read over the network even if shared memory is possible.
    pub no_shared_memory: bool,
    /// The handle that ends all calls that wait for the dispatcher, from another thread.
    pub give_up: GiveUp,
}

/// A handle that cancels calls to a [`Service`]. Calls that wait for the dispatcher return
/// [`ServiceError::GivenUp`] at once, and so do all later calls. Clones share their state. A reader has its
/// own [`Canceller`](millstream_client::Canceller).
#[derive(Debug, Clone)]
pub struct GiveUp {
    flag: watch::Sender<bool>,
}

impl Default for GiveUp {
    fn default() -> Self {
        let (flag, _) = watch::channel(false);
        Self { flag }
    }
}

impl GiveUp {
    /// Cancels all waiting and later calls.
    pub fn give_up(&self) {
        self.flag.send_replace(true);
    }
}

/// The reason why a call to a service failed.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The caller's address of the dispatcher is invalid.
    #[error("dispatcher address: {0}")]
    Address(String),
    /// The key does not permit reading.
    #[error(transparent)]
    Key(#[from] CredentialsError),
    /// The process cannot open a socket.
    #[error("{0}")]
    Socket(String),
    /// The dispatcher is unreachable, or refuses the request.
    #[error(transparent)]
    Dispatcher(#[from] Error),
    /// The definition of the dataset is invalid.
    #[error(transparent)]
    Dataset(#[from] GraphError),
    /// The dispatcher's answer, or the caller's request, cannot be part of a dataset.
    #[error("{0}")]
    Definition(String),
    /// The system refused to start a thread, or a part of this process panicked.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The caller cancelled the call.
    #[error("the caller cancelled the call")]
    GivenUp,
}

/// A connection to a service. The methods of a `Service` block the calling thread. Readers run on the
/// connection's lane and may outlive the `Service`.
///
/// Dropping the `Service` and its readers sends no goodbye message: the dispatcher keeps the readers' splits
/// assigned until the heartbeats time out. [`Service::close`] says goodbye.
#[derive(Debug)]
pub struct Service {
    dispatcher: String,
    client: Arc<Client>,
    connector: Arc<AutoConnector>,
    lane: Arc<Lane>,
    give_up: GiveUp,
    goodbyes: Goodbyes,
    dispatcher_timeout: Duration,
}

/// The readers whose end the dispatcher has not confirmed.
#[derive(Debug)]
struct Goodbyes {
    /// The sender that each reader clones and holds until the dispatcher received the reader's goodbye
    /// message.
    held: mpsc::Sender<Infallible>,
    /// The receiver that ends once all clones of the sender are dropped.
    said: mpsc::Receiver<Infallible>,
    /// The flag that becomes true when the service is closed: pending reports are then dropped soon.
    closing: watch::Sender<bool>,
}

impl Service {
    /// Connects to the dispatcher at `host:port`, and waits for a dispatcher that has not started yet. For a
    /// service with several dispatchers, `dispatcher` lists their addresses: `a:5050,b:5050`.
    ///
    /// # Errors
    /// [`ServiceError`] names the address and the remedy.
    ///
    /// ```no_run
    /// use millstream::link::KeySource;
    /// use millstream::{Service, ServiceConfig};
    ///
    /// let key = KeySource::from_setting("read.key").load()?;
    /// let service = Service::connect(&key, "head:5050", ServiceConfig::default())?;
    /// println!("{} workers", service.status()?.counts.workers);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(key: &LoadedKey, dispatcher: &str, config: ServiceConfig) -> Result<Self, ServiceError> {
        let address =
            HostPorts::from_str(dispatcher).map_err(|error| ServiceError::Address(error.to_string()))?;
        let role = match &key.keys.own {
            KeyMaterial::Cluster(_) => Role::Submit,
            KeyMaterial::Role(key) => key.role(),
        };
        let credentials = key.credentials(role)?;
        let lane = Arc::new(Lane::start("reader")?);
        let ServiceConfig {
            endpoint,
            mut session,
            local,
            no_shared_memory,
            give_up,
        } = config;
        session.whereabouts = local.whereabouts();
        let dispatcher_timeout = session.give_up;
        let connecting = async move {
            let endpoint = Endpoint::client(credentials, endpoint)
                .map_err(|error| ServiceError::Socket(error.to_string()))?;
            let client = Client::connect(endpoint.clone(), address, session).await?;
            Ok((endpoint, client))
        };
        let (endpoint, client) = ask(&lane, &give_up, connecting)?;
        let connector = AutoConnector::new(endpoint, local);
        let connector = Arc::new(if no_shared_memory {
            connector.without_shared_memory()
        } else {
            connector
        });
        let (held, said) = mpsc::channel(1);
        Ok(Self {
            dispatcher: dispatcher.to_owned(),
            client: Arc::new(client),
            connector,
            lane,
            give_up,
            goodbyes: Goodbyes {
                held,
                said,
                closing: watch::Sender::new(false),
            },
            dispatcher_timeout,
        })
    }

    /// Returns the dispatcher's address, as the caller wrote it.
    pub fn dispatcher(&self) -> &str {
        &self.dispatcher
    }

    /// Returns the time for which the dispatcher may be unreachable, or `None` for the default.
    pub(crate) fn own_dispatcher_timeout(&self) -> Option<Duration> {
        let default = SessionConfig::default().give_up;
        Some(self.dispatcher_timeout).filter(|timeout| *timeout != default)
    }

    /// Registers a dataset, under the given id or under an id that the dispatcher chooses.
    ///
    /// # Errors
    /// The definition is invalid, another dataset has the id, or the key permits only reading.
    pub fn register(&self, dataset: Dataset, id: Option<DatasetId>) -> Result<DatasetId, ServiceError> {
        let graph = dataset.graph()?;
        // The process inspects reachable files once, to describe the elements of the files. The dispatcher
        // inspects files that only servers can reach.
        let described = graph.described(&Functions::new()).unwrap_or(graph);
        let definition = described.to_bytes()?;
        let client = self.client.clone();
        self.ask(async move { Ok(client.register_dataset(id, definition).await?) })
    }

    /// Returns the facts of a dataset.
    ///
    /// # Errors
    /// No dataset has this id.
    pub fn dataset(&self, id: &DatasetId) -> Result<DatasetMetadata, ServiceError> {
        let (client, id) = (self.client.clone(), id.clone());
        self.ask(
            async move { DatasetMetadata::new(client.dataset(&id).await?).map_err(ServiceError::Definition) },
        )
    }

    /// Returns the graph of a dataset as it was registered, for inspection or drawing.
    ///
    /// # Errors
    /// No dataset has this id, or the key is neither a cluster key nor a `submit` key. A definition may
    /// contain code, so other keys may not read it.
    pub fn graph(&self, id: &DatasetId) -> Result<Graph, ServiceError> {
        let (client, id) = (self.client.clone(), id.clone());
        let definition = self.ask(async move { Ok(client.definition(&id).await?) })?;
        Ok(Graph::from_bytes(&definition)?)
    }

    /// Returns the workers of this process. A worker with this value in its settings becomes a local worker
    /// of the connection.
    pub fn local_workers(&self) -> &LocalWorkers {
        self.connector.local()
    }

    /// Returns the dispatcher's setting for the placement of trainers and workers.
    pub fn deployment_mode(&self) -> DeploymentMode {
        self.client.deployment_mode()
    }

    /// Returns the id of the job for a request, and creates the job if it does not exist.
    ///
    /// # Errors
    /// The named job has other settings (the message lists all differences), or the request needs workers of
    /// this process and the process has none.
    pub fn job(&self, request: &ReadRequest) -> Result<JobId, ServiceError> {
        let parameters = request.parameters().deployed(self.deployment_mode());
        // The dispatcher would refuse the read (C14.4), and would keep a job that this process cannot read.
        if parameters.target_workers == TargetWorkers::Local && self.local_workers().is_empty() {
            return Err(parameters.without_local_worker().into());
        }
        let (client, request) = (self.client.clone(), request.clone());
        self.ask(async move { Ok(client.find_or_create_job(request.job_name, &parameters).await?) })
    }

    /// Reads one pass of a job, numbered from 0. In a coordinated read, `config` contains the number of this
    /// consumer, and each consumer starts a pass once.
    ///
    /// # Errors
    /// The dispatcher cannot list the sources of the dataset, or another reader has started as this consumer.
    /// The call also fails if the job has the cross-trainer cache and the caller names no trainer.
    ///
    /// ```no_run
    /// use millstream::client::ReaderConfig;
    /// # use millstream::{Service, control::JobId};
    /// # fn read(service: &Service, job: JobId) -> Result<(), Box<dyn std::error::Error>> {
    /// for element in service.read(job, 0, &ReaderConfig::default())? {
    ///     let element = element?;
    ///     println!("{} components", element.spec().components().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self, job: JobId, repetition: u64, config: &ReaderConfig) -> Result<Reader, ServiceError> {
        self.read_with_files_digest(job, repetition, config)
            .map(|(reader, _)| reader)
    }

    /// Opens a reader like [`Service::read`]. Also returns the digest of the files that an exactly-once job
    /// reads.
    pub(crate) fn read_with_files_digest(
        &self,
        job: JobId,
        repetition: u64,
        config: &ReaderConfig,
    ) -> Result<(Reader, Option<u64>), ServiceError> {
        let (client, held) = (self.client.clone(), self.goodbyes.held.clone());
        let closing = self.goodbyes.closing.subscribe();
        let (consumer, trainer_id) = (config.consumer, config.trainer_id.clone());
        let opening = async move {
            check_trainer(client.asked_for(job).await.as_ref(), trainer_id.as_deref())?;
            let is_shared = client.is_shared(job).await;
            let handle = client.open_iteration(job, repetition, consumer).await?;
            let files = handle.files();
            Ok((discover(handle, closing, held), is_shared, files))
        };
        // The dispatcher may open the reader although the caller cancels this call. The request therefore
        // continues on the lane, and the reader says goodbye once its number is known.
        let opening = self.lane.spawn(opening);
        let (feed, is_shared, files) = self.ask(async move { opening.await? })?;
        let config = ReaderConfig {
            is_shared: is_shared || config.is_shared,
            ..config.clone()
        };
        let reader = Reader::start(self.lane.clone(), self.connector.clone(), feed, &config);
        Ok((reader, files))
    }

    /// Returns the whole status of the dispatcher.
    ///
    /// # Errors
    /// The dispatcher does not answer.
    pub fn status(&self) -> Result<Status, ServiceError> {
        let client = self.client.clone();
        self.ask(async move { Ok(client.status().await?) })
    }

    /// Returns whether every later request fails: the dispatcher restarted without its memory, refuses this
    /// process, or was out of reach for too long. A new connection may succeed.
    pub fn has_failed(&self) -> bool {
        self.client.has_failed()
    }

    /// Ends the service: its workers and its dispatcher stop within their quiet periods. Blocks until the
    /// dispatcher is gone.
    ///
    /// Readers get [`ReadError::ShutDown`](millstream_client::ReadError::ShutDown), or the end of the data if
    /// all elements were delivered. [`Service::close`] has no effect afterwards. Concurrent calls by other
    /// processes are harmless.
    ///
    /// # Errors
    /// The key is neither a cluster key nor a `submit` key, or the dispatcher does not answer.
    pub fn shutdown(&self) -> Result<(), ServiceError> {
        let client = self.client.clone();
        self.ask(async move { Ok(client.shutdown().await?) })
    }

    /// Closes the service once the dispatcher has confirmed the end of its readers. Drop the readers before
    /// the call. The call waits at most one second for a living reader or an unresponsive dispatcher.
    pub fn close(self) {
        let Goodbyes {
            held,
            mut said,
            closing,
        } = self.goodbyes;
        drop(held);
        closing.send_replace(true);
        let goodbye = self
            .lane
            .spawn(async move { tokio::time::timeout(GOODBYE, said.recv()).await.is_ok() });
        if !goodbye.wait().unwrap_or(false) {
            tracing::debug!(
                "the dispatcher did not confirm the goodbye; it will notice the missing heartbeats"
            );
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
    ) -> Result<T, ServiceError> {
        ask(&self.lane, &self.give_up, question)
    }
}

/// Checks the trainer's name before any request. For a job unknown to this process, the workers check the
/// name (D8.1).
fn check_trainer(job: Option<&JobParameters>, trainer_id: Option<&str>) -> Result<(), Error> {
    let message = match (job.map(|job| job.cross_trainer_cache), trainer_id) {
        (_, Some(id)) if id.is_empty() || id.len() > TRAINER_ID_BYTES_MAX => {
            format!(
                "invalid trainer_id: expected 1 to {TRAINER_ID_BYTES_MAX} bytes, found {}",
                id.len()
            )
        }
        (Some(true), None) => "the job has the cross-trainer cache: name the trainer (trainer_id)".to_owned(),
        (Some(false), Some(id)) => format!(
            "the job has no cross-trainer cache (cross_trainer_cache), so it cannot have the trainer {id:?}"
        ),
        (Some(true) | None, Some(_)) | (Some(false) | None, None) => return Ok(()),
    };
    Err(Error {
        code: Code::InvalidArgument,
        message,
    })
}

/// Waits for an answer, or until the caller cancels the call.
fn ask<T: Send + 'static>(
    lane: &Lane,
    give_up: &GiveUp,
    question: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    let mut given_up = give_up.flag.subscribe();
    let asking = lane.spawn(async move {
        tokio::select! {
            answer = question => answer,
            Ok(_) = given_up.wait_for(|given_up| *given_up) => Err(ServiceError::GivenUp),
        }
    });
    asking.wait()?
}
