//! A service as a trainer sees it: register a dataset, read it.

use std::str::FromStr;
use std::sync::Arc;

use millstream_client::{Reader, ReaderConfig, discover};
use millstream_control::rpc::{Client, DatasetInfo, SessionConfig};
use millstream_control::{DatasetId, Error, JobId, JobParameters, Policy, Status};
use millstream_link::{
    CredentialsError, Endpoint, EndpointConfig, HostPort, KeyMaterial, Lane, LaneError, LoadedKey, Role,
};
use millstream_pipeline::graph::{Dataset, GraphError};
use thiserror::Error;

use crate::connect::AutoConnector;
use crate::local::LocalWorkers;

/// How a trainer talks to a service.
#[derive(Debug, Clone, Default)]
pub struct ServiceConfig {
    /// The network's limits and habits.
    pub endpoint: EndpointConfig,
    /// Patience with the dispatcher.
    pub session: SessionConfig,
    /// Workers of this process, which are read without a network.
    pub local: LocalWorkers,
}

/// What to read, and how.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// A registered dataset.
    pub dataset: DatasetId,
    /// How it is dealt out to the workers.
    pub policy: Policy,
    /// Readers of one name share a job; `None` makes one of its own.
    pub job_name: Option<String>,
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
}

/// A connection with a service. Its methods block the thread; readers live on its lane and may outlive it.
#[derive(Debug)]
pub struct Service {
    dispatcher: String,
    client: Arc<Client>,
    connector: Arc<AutoConnector>,
    lane: Arc<Lane>,
}

impl Service {
    /// Connects to the dispatcher at `host:port`, waiting for one that is not there yet.
    ///
    /// # Errors
    /// [`ServiceError`] names the address and what to do.
    pub fn connect(key: &LoadedKey, dispatcher: &str, config: ServiceConfig) -> Result<Self, ServiceError> {
        let address =
            HostPort::from_str(dispatcher).map_err(|error| ServiceError::Address(error.to_string()))?;
        let role = match &key.key {
            KeyMaterial::Cluster(_) => Role::Submit,
            KeyMaterial::Role(key) => key.role(),
        };
        let credentials = key.credentials(role)?;
        let lane = Arc::new(Lane::start("reader")?);
        let ServiceConfig {
            endpoint,
            session,
            local,
        } = config;
        let connecting = lane.spawn(async move {
            let endpoint = Endpoint::client(credentials, endpoint)
                .map_err(|error| ServiceError::Socket(error.to_string()))?;
            let client = Client::connect(endpoint.clone(), address, session).await?;
            Ok::<_, ServiceError>((endpoint, client))
        });
        let (endpoint, client) = connecting.wait()??;
        let connector = Arc::new(AutoConnector::new(endpoint, local));
        Ok(Self {
            dispatcher: dispatcher.to_owned(),
            client: Arc::new(client),
            connector,
            lane,
        })
    }

    /// The dispatcher, as it was given.
    pub fn dispatcher(&self) -> &str {
        &self.dispatcher
    }

    /// Registers a dataset, under this id or one that the dispatcher chooses.
    ///
    /// # Errors
    /// The definition is wrong, the id is another dataset's, or this process may only read.
    pub fn register(&self, dataset: Dataset, id: Option<DatasetId>) -> Result<DatasetId, ServiceError> {
        let definition = dataset.graph()?.to_bytes()?;
        let client = self.client.clone();
        Ok(self
            .lane
            .spawn(async move { client.register_dataset(id, definition).await })
            .wait()??)
    }

    /// What is known of a dataset.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn dataset(&self, id: &DatasetId) -> Result<DatasetInfo, ServiceError> {
        let (client, id) = (self.client.clone(), id.clone());
        Ok(self
            .lane
            .spawn(async move { client.dataset(&id).await })
            .wait()??)
    }

    /// The job that a request is for.
    ///
    /// # Errors
    /// The named job differs, with all differences in the message.
    pub fn job(&self, request: &ReadRequest) -> Result<JobId, ServiceError> {
        let (client, request) = (self.client.clone(), request.clone());
        let job = async move {
            let parameters = JobParameters::new(request.dataset, request.policy);
            client.find_or_create_job(request.job_name, &parameters).await
        };
        Ok(self.lane.spawn(job).wait()??)
    }

    /// Reads one pass of a job, numbered from 0.
    ///
    /// # Errors
    /// The sources of the dataset cannot be listed, for example.
    pub fn read(&self, job: JobId, repetition: u64, config: &ReaderConfig) -> Result<Reader, ServiceError> {
        let client = self.client.clone();
        let opening = self
            .lane
            .spawn(async move { client.open_iteration(job, repetition).await.map(discover) });
        let feed = opening.wait()??;
        Ok(Reader::start(
            self.lane.clone(),
            self.connector.clone(),
            feed,
            config,
        ))
    }

    /// Everything the dispatcher knows, for people.
    ///
    /// # Errors
    /// The dispatcher does not answer.
    pub fn status(&self) -> Result<Status, ServiceError> {
        let client = self.client.clone();
        Ok(self.lane.spawn(async move { client.status().await }).wait()??)
    }
}
