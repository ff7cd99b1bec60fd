//! A service as a trainer sees it: register a dataset, read it.

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
    CredentialsError, Endpoint, EndpointConfig, HostPort, KeyMaterial, Lane, LaneError, LoadedKey, Role,
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
    /// The network's limits and habits.
    pub endpoint: EndpointConfig,
    /// Patience with the dispatcher.
    pub session: SessionConfig,
    /// Workers of this process, which are read without a network, and which the target `local` means.
    pub local: LocalWorkers,
    /// Reads workers of other processes over the network even where memory could be shared with them.
    pub no_shared_memory: bool,
    /// Ends whatever waits for the dispatcher, from elsewhere.
    pub give_up: GiveUp,
}

/// Says that answers are not wanted any more: callers that wait for the dispatcher of a [`Service`] get
/// [`ServiceError::GivenUp`] at once, and so do later callers. Clones are the same one. Readers have a
/// [`Canceller`](millstream_client::Canceller) of their own.
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
    /// Answers are not wanted any more.
    pub fn give_up(&self) {
        self.flag.send_replace(true);
    }
}

/// Why something cannot be asked of a service.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The caller gave an address that is none.
    #[error("dispatcher address: {0}")]
    Address(String),
    /// The key cannot be a reader's.
    #[error(transparent)]
    Key(#[from] CredentialsError),
    /// No socket can be had.
    #[error("{0}")]
    Socket(String),
    /// The dispatcher cannot be reached, or refuses.
    #[error(transparent)]
    Dispatcher(#[from] Error),
    /// The dataset cannot be defined.
    #[error(transparent)]
    Dataset(#[from] GraphError),
    /// The dispatcher's answer, or what the caller asks for, cannot be part of a dataset.
    #[error("{0}")]
    Definition(String),
    /// The system gives no thread, or a part of this process panicked.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The caller gave up.
    #[error("it was given up")]
    GivenUp,
}

/// A connection with a service. Its methods block the thread; readers live on its lane and may outlive it.
///
/// Dropping it and its readers ends them without a goodbye: the dispatcher counts what they hold as theirs
/// until it misses them. [`Service::close`] says goodbye.
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

/// Readers whose end the dispatcher does not know of.
#[derive(Debug)]
struct Goodbyes {
    /// Each reader has a clone until its goodbye was heard.
    held: mpsc::Sender<Infallible>,
    /// Ends behind the last of them.
    said: mpsc::Receiver<Infallible>,
    /// Becomes true when the service is closed: reports that nobody has taken are given up soon.
    closing: watch::Sender<bool>,
}

impl Service {
    /// Connects to the dispatcher at `host:port`, waiting for one that is not there yet.
    ///
    /// # Errors
    /// [`ServiceError`] names the address and what to do.
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
            HostPort::from_str(dispatcher).map_err(|error| ServiceError::Address(error.to_string()))?;
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

    /// The dispatcher, as it was given.
    pub fn dispatcher(&self) -> &str {
        &self.dispatcher
    }

    /// Returns how long the dispatcher may be out of reach, if that is not the default.
    pub(crate) fn own_dispatcher_timeout(&self) -> Option<Duration> {
        let default = SessionConfig::default().give_up;
        Some(self.dispatcher_timeout).filter(|timeout| *timeout != default)
    }

    /// Registers a dataset, under this id or one that the dispatcher chooses.
    ///
    /// # Errors
    /// The definition is wrong, the id is another dataset's, or this process may only read.
    pub fn register(&self, dataset: Dataset, id: Option<DatasetId>) -> Result<DatasetId, ServiceError> {
        let graph = dataset.graph()?;
        // Where files say what they hold they are asked here, once; those that only servers see are left to
        // the dispatcher.
        let described = graph.described(&Functions::new()).unwrap_or(graph);
        let definition = described.to_bytes()?;
        let client = self.client.clone();
        self.ask(async move { Ok(client.register_dataset(id, definition).await?) })
    }

    /// Returns the facts of a dataset.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn dataset(&self, id: &DatasetId) -> Result<DatasetMetadata, ServiceError> {
        let (client, id) = (self.client.clone(), id.clone());
        self.ask(
            async move { DatasetMetadata::new(client.dataset(&id).await?).map_err(ServiceError::Definition) },
        )
    }

    /// The graph of a dataset, as it was registered: to be looked at, or drawn.
    ///
    /// # Errors
    /// There is none of this id, or the key is no cluster or `submit` key: a definition may hold code.
    pub fn graph(&self, id: &DatasetId) -> Result<Graph, ServiceError> {
        let (client, id) = (self.client.clone(), id.clone());
        let definition = self.ask(async move { Ok(client.definition(&id).await?) })?;
        Ok(Graph::from_bytes(&definition)?)
    }

    /// The workers of this process: a worker that is given them is one.
    pub fn local_workers(&self) -> &LocalWorkers {
        self.connector.local()
    }

    /// Returns the way in which trainers and workers are placed, as the dispatcher says.
    pub fn deployment_mode(&self) -> DeploymentMode {
        self.client.deployment_mode()
    }

    /// The job that a request is for.
    ///
    /// # Errors
    /// The named job differs, with all differences in the message; or workers of this process are asked for,
    /// and it has none.
    pub fn job(&self, request: &ReadRequest) -> Result<JobId, ServiceError> {
        let parameters = request.parameters().deployed(self.deployment_mode());
        // The dispatcher would refuse the reading (C14.4), and leave a job that nobody can read here.
        if parameters.target_workers == TargetWorkers::Local && self.local_workers().is_empty() {
            return Err(parameters.without_local_worker().into());
        }
        let (client, request) = (self.client.clone(), request.clone());
        self.ask(async move { Ok(client.find_or_create_job(request.job_name, &parameters).await?) })
    }

    /// Reads one pass of a job, numbered from 0. Where the job has consumers that read in step, `config` says
    /// which one this is; each begins a pass once.
    ///
    /// # Errors
    /// The sources of the dataset cannot be listed, for example; another reader has begun as this consumer;
    /// or the job has the cross-trainer cache and no trainer is named.
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
        let (client, held) = (self.client.clone(), self.goodbyes.held.clone());
        let closing = self.goodbyes.closing.subscribe();
        let (consumer, trainer_id) = (config.consumer, config.trainer_id.clone());
        let (feed, is_shared) = self.ask(async move {
            check_trainer(client.asked_for(job).await.as_ref(), trainer_id.as_deref())?;
            let is_shared = client.is_shared(job).await;
            let handle = client.open_iteration(job, repetition, consumer).await?;
            Ok((discover(handle, closing, held), is_shared))
        })?;
        let config = ReaderConfig {
            is_shared: is_shared || config.is_shared,
            ..config.clone()
        };
        Ok(Reader::start(
            self.lane.clone(),
            self.connector.clone(),
            feed,
            &config,
        ))
    }

    /// Everything the dispatcher knows, for people.
    ///
    /// # Errors
    /// The dispatcher does not answer.
    pub fn status(&self) -> Result<Status, ServiceError> {
        let client = self.client.clone();
        self.ask(async move { Ok(client.status().await?) })
    }

    /// Ends the service: its workers and its dispatcher stop within their quiet periods. Its readers get
    /// [`ReadError::ShutDown`](millstream_client::ReadError::ShutDown), or the end of the data if everything
    /// was delivered. Blocks until the dispatcher is gone; [`Service::close`] is of no use afterwards. It
    /// does not matter if somebody else does the same.
    ///
    /// # Errors
    /// The key is no cluster or `submit` key, or the dispatcher does not answer.
    pub fn shutdown(&self) -> Result<(), ServiceError> {
        let client = self.client.clone();
        self.ask(async move { Ok(client.shutdown().await?) })
    }

    /// Ends it once the dispatcher knows that its readers are gone. Drop them before: one that lives on, or a
    /// dispatcher that does not answer, is waited for no longer than a second.
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
            tracing::debug!("the dispatcher was not told of the end; it will notice the silence");
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
    ) -> Result<T, ServiceError> {
        ask(&self.lane, &self.give_up, question)
    }
}

/// Checks the trainer's name before anything is asked. What this process does not know of the job the workers
/// check (D8.1).
fn check_trainer(job: Option<&JobParameters>, trainer_id: Option<&str>) -> Result<(), Error> {
    let message = match (job.map(|job| job.cross_trainer_cache), trainer_id) {
        (_, Some(id)) if id.is_empty() || id.len() > TRAINER_ID_BYTES_MAX => {
            format!(
                "a trainer_id has 1 to {TRAINER_ID_BYTES_MAX} bytes, this one has {}",
                id.len()
            )
        }
        (Some(true), None) => "the job has the cross-trainer cache: name the trainer (trainer_id)".to_owned(),
        (Some(false), Some(id)) => format!(
            "the job has no cross-trainer cache (cross_trainer_cache), so there is no place for the trainer {id:?} in it"
        ),
        (Some(true) | None, Some(_)) | (Some(false) | None, None) => return Ok(()),
    };
    Err(Error {
        code: Code::InvalidArgument,
        message,
    })
}

/// Waits for an answer, unless it is given up.
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
