//! A service as the source of a dataset. Operations after this source run in the trainer.
//!
//! [`dataset`] writes the node. [`opener`] opens the node in the process that executes the dataset: a
//! trainer, or a worker of any service. Does not know the operations that run on workers.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{MaxOutstanding, OnLost, OnNotice, OnStarted, Reader, ReaderConfig, WaitClock};
use millstream_control::rpc::SessionConfig;
use millstream_control::{Cardinality, DatasetId, JobId, Policy, TargetWorkers};
use millstream_link::LoadedKey;
use millstream_pipeline::exec::{Cancel, CancelHook, ErrorKind, ExecError, OpenPass, Source, Value};
use millstream_pipeline::graph::{Dataset, Params, ServiceReader, SpecField};
use millstream_trace::Tracer;
use minicbor::{Decode, Encode};

use crate::exactly_once::{ExactSource, ExactTerms, Place, placed};
use crate::local::LocalWorkers;
use crate::request::ReadRequest;
use crate::service::{GiveUp, Service, ServiceConfig, ServiceError};
use crate::service_values::{OP, peer, unanswered, unread, value_from};

/// The parameters of the node: the service and the dataset to read.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct Parameters {
    #[n(0)]
    dispatcher: String,
    #[n(1)]
    dataset: String,
    #[n(2)]
    policy: String,
    #[n(3)]
    job_name: Option<String>,
    /// The maximum number of outstanding elements. `None` lets the reader choose the number.
    #[n(4)]
    max_outstanding: Option<u64>,
    #[cbor(n(5), default)]
    target_workers: String,
    #[n(6)]
    num_consumers: Option<u32>,
    #[cbor(n(7), default)]
    cross_trainer_cache: bool,
    #[n(8)]
    consumer: Option<u32>,
    #[n(9)]
    trainer_id: Option<String>,
    /// The reaction to lost splits. `None` means "raise".
    #[n(10)]
    on_lost: Option<String>,
    /// The time for which the dispatcher may be unreachable. `None` uses the timeout of the process that runs
    /// the dataset.
    #[n(11)]
    dispatcher_timeout_ms: Option<u64>,
    /// The terms on which the trainer reads an exactly-once job.
    #[n(12)]
    exactly_once: Option<ExactTerms>,
}

/// The receivers of messages from a process's readers. By default messages go to the log.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The receiver of notices: see [`ReaderConfig::on_notice`].
    pub on_notice: Option<OnNotice>,
    /// The receiver of the watches of readers: see [`ReaderConfig::on_started`].
    pub on_started: Option<OnStarted>,
    /// The tracer of readers: see [`ReaderConfig::tracer`].
    pub tracer: Tracer,
    /// The waits of the user of the execution: see [`ReaderConfig::user_waits`].
    pub user_waits: Option<Arc<WaitClock>>,
    /// The timeouts of connections to dispatchers, and the receiver of messages about waiting.
    pub session: SessionConfig,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Returns a dataset of the elements that the workers of a service yield. Operations appended to the dataset
/// run in the process that executes the dataset. The dataset contains `max_outstanding`, `consumer`,
/// `trainer_id` and `on_lost` of `config`, and the dispatcher timeout of `service` if it is not the default.
///
/// Every pass over the dataset is a pass of a job. The first pass of an execution has the number of its
/// epoch. Executions share the job only if `request` names it; then each pass is divided among its readers
/// and is read once.
///
/// A named job that is repeated within one execution leaves no elements for later epochs of other executions.
/// A read through the cross-trainer cache has no end.
///
/// # Errors
/// The dispatcher does not know the dataset, or does not answer.
pub fn dataset(
    service: &Service,
    request: &ReadRequest,
    config: &ReaderConfig,
) -> Result<Dataset, ServiceError> {
    let metadata = service.dataset(&request.dataset)?;
    let parameters = Parameters {
        dispatcher: service.dispatcher().to_owned(),
        dataset: request.dataset.to_string(),
        policy: request.policy.to_string(),
        job_name: request.job_name.clone(),
        max_outstanding: match config.max_outstanding {
            MaxOutstanding::Auto => None,
            MaxOutstanding::Elements(elements) => Some(elements),
        },
        target_workers: request.target_workers.to_string(),
        num_consumers: request.num_consumers,
        cross_trainer_cache: request.cross_trainer_cache,
        consumer: config.consumer,
        trainer_id: config.trainer_id.clone(),
        on_lost: match config.on_lost {
            OnLost::Raise => None,
            on_lost @ (OnLost::Warn | OnLost::Ignore) => Some(on_lost.name().to_owned()),
        },
        dispatcher_timeout_ms: service
            .own_dispatcher_timeout()
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        exactly_once: request.exactly_once.clone(),
    };
    let params = Params::encode(&parameters)
        .ok_or_else(|| ServiceError::Definition("the parameters are too long".to_owned()))?;
    let cardinality = metadata.distributed_cardinality(request.policy, request.num_consumers);
    let spec = match &request.exactly_once {
        Some(terms) if terms.placed => {
            placed(&metadata.spec).map_err(|error| ServiceError::Definition(error.to_string()))?
        }
        Some(_) | None => metadata.spec,
    };
    Ok(Dataset::from_service(ServiceReader {
        params,
        spec: SpecField(spec),
        count: (cardinality == Cardinality::Finite(0)).then_some(0),
        infinite: cardinality == Cardinality::Infinite,
        resumable: request.exactly_once.is_some(),
    }))
}

/// Returns whether other readers may share the job that a node reads: the job has a name, and each element
/// goes to only one reader.
pub(crate) fn is_shared(reader: &ServiceReader) -> bool {
    let parameters: Result<Parameters, _> = reader.params.decode();
    parameters.is_ok_and(|parameters| {
        parameters.job_name.is_some() && parameters.num_consumers.is_none() && !parameters.cross_trainer_cache
    })
}

/// Returns the function that opens nodes of this operation, for
/// [`Functions::with_service`](millstream_pipeline::exec::Functions::with_service). Each execution has its
/// own connection and, without a job name, its own job.
pub fn opener(
    key: LoadedKey,
    local: LocalWorkers,
    hooks: Hooks,
) -> impl Fn(&Params, &Cancel) -> Result<OpenPass, ExecError> + Send + Sync + 'static {
    move |params, cancel| {
        let mut passes = Passes::connect(&key, &local, &hooks, params, cancel)?;
        Ok(Box::new(move |pass| passes.open(pass)))
    }
}

/// Creates a source of a reader's elements, for a registered flat_map function that reads another dataset of
/// a service for each element. The source ends when `cancel` is raised.
pub fn source(reader: Reader, cancel: &Cancel) -> Box<dyn Source> {
    Box::new(Elements::new(reader, false, cancel))
}

/// A job that one execution reads.
struct Passes {
    service: Option<Arc<Service>>,
    read: Read,
    config: ReaderConfig,
    cancel: Cancel,
    /// The hook that wakes callers waiting for the dispatcher.
    _hook: CancelHook,
}

/// The jobs of an execution.
enum Read {
    /// All passes belong to one job.
    Job { job: JobId, is_shared: bool },
    /// Every pass has a job of its own, which the request describes.
    ExactlyOnce(Box<(ReadRequest, ExactTerms)>),
}

impl Passes {
    fn connect(
        key: &LoadedKey,
        local: &LocalWorkers,
        hooks: &Hooks,
        params: &Params,
        cancel: &Cancel,
    ) -> Result<Self, ExecError> {
        let parameters: Parameters = params.decode().map_err(caller)?;
        let is_shared = parameters.job_name.is_some();
        let request = ReadRequest {
            dataset: DatasetId::new(&parameters.dataset).map_err(caller)?,
            policy: Policy::from_str(&parameters.policy).map_err(caller)?,
            job_name: parameters.job_name,
            target_workers: TargetWorkers::from_str(&parameters.target_workers).map_err(caller)?,
            num_consumers: parameters.num_consumers,
            cross_trainer_cache: parameters.cross_trainer_cache,
            abandoned: None,
            in_order: false,
            exactly_once: parameters.exactly_once,
        };
        let give_up = GiveUp::default();
        let config = ServiceConfig {
            local: local.clone(),
            give_up: give_up.clone(),
            session: SessionConfig {
                give_up: parameters
                    .dispatcher_timeout_ms
                    .map_or(hooks.session.give_up, Duration::from_millis),
                ..hooks.session.clone()
            },
            ..ServiceConfig::default()
        };
        let hook = cancel.on_cancel(move || give_up.give_up());
        let service = Service::connect(key, &parameters.dispatcher, config).map_err(unanswered)?;
        let read = match request.exactly_once.clone() {
            Some(terms) => Read::ExactlyOnce(Box::new((request, terms))),
            None => Read::Job {
                job: service.job(&request).map_err(unanswered)?,
                is_shared,
            },
        };
        let on_lost = parameters.on_lost.as_deref().map(OnLost::from_str);
        let on_lost = on_lost.transpose().map_err(caller)?.unwrap_or_default();
        let max_outstanding = parameters
            .max_outstanding
            .map_or(MaxOutstanding::Auto, MaxOutstanding::Elements);
        let config = ReaderConfig {
            max_outstanding,
            consumer: parameters.consumer,
            trainer_id: parameters.trainer_id,
            on_lost,
            on_notice: hooks.on_notice.clone(),
            on_started: hooks.on_started.clone(),
            tracer: hooks.tracer.clone(),
            user_waits: hooks.user_waits.clone(),
            ..ReaderConfig::default()
        };
        Ok(Self {
            service: Some(Arc::new(service)),
            read,
            config,
            cancel: cancel.clone(),
            _hook: hook,
        })
    }

    fn open(&mut self, pass: u64) -> Result<Box<dyn Source>, ExecError> {
        let service = self
            .service
            .as_ref()
            .ok_or_else(|| peer("the connection to the service was closed"))?;
        match &mut self.read {
            Read::Job { job, is_shared } => {
                let reader = service.read(*job, pass, &self.config).map_err(unanswered)?;
                Ok(Box::new(Elements::new(reader, *is_shared, &self.cancel)))
            }
            Read::ExactlyOnce(read) => {
                let (request, terms) = (**read).clone();
                // Only the first pass continues at a saved position.
                read.1.place = Place::default();
                read.1.files = None;
                if let Some(quarantine) = &mut read.1.quarantine {
                    quarantine.elements.clear();
                }
                Ok(Box::new(ExactSource::new(
                    Arc::clone(service),
                    (request, terms),
                    self.config.clone(),
                    pass,
                    self.cancel.clone(),
                )))
            }
        }
    }
}

impl Drop for Passes {
    fn drop(&mut self) {
        // The source of the last pass is dropped before its execution's passes.
        if let Some(service) = self.service.take().and_then(Arc::into_inner) {
            service.close();
        }
    }
}

/// A pass of a job that one execution reads.
struct Elements {
    reader: Reader,
    /// `true` if other readers share the pass.
    is_shared: bool,
    /// The hook that wakes callers waiting for an element.
    _hook: CancelHook,
}

impl Elements {
    fn new(reader: Reader, is_shared: bool, cancel: &Cancel) -> Elements {
        let canceller = reader.canceller();
        let hook = cancel.on_cancel(move || canceller.cancel());
        Elements {
            reader,
            is_shared,
            _hook: hook,
        }
    }
}

impl Source for Elements {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let element = self.reader.next_element().map_err(unread)?;
        element.as_ref().map(|element| value_from(element, 0)).transpose()
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

fn caller(error: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Caller, OP, error.to_string())
}
