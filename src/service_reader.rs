//! A service as the source of a dataset. Operations after this source run in the trainer.
//!
//! [`dataset`] writes the node. [`opener`] opens the node in the process that executes the dataset: a
//! trainer, or a worker of any service. Does not know the operations that run on workers.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_client::{MaxOutstanding, OnLost, OnNotice, ReadError, Reader, ReaderConfig};
use millstream_control::rpc::SessionConfig;
use millstream_control::{Cardinality, Code, DatasetId, JobId, Policy, TargetWorkers};
use millstream_element::{Dtype, Element};
use millstream_link::LoadedKey;
use millstream_pipeline::exec::{Cancel, CancelHook, ErrorKind, ExecError, OpenPass, Source, Tensor, Value};
use millstream_pipeline::graph::{Dataset, Params, ServiceReader, SpecField};
use minicbor::{Decode, Encode};

use crate::local::LocalWorkers;
use crate::request::ReadRequest;
use crate::service::{GiveUp, Service, ServiceConfig, ServiceError};

/// The name of the operation in errors.
const OP: &str = "service";

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
}

/// The receivers of messages from a process's readers. By default messages go to the log.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The receiver of notices: see [`ReaderConfig::on_notice`].
    pub on_notice: Option<OnNotice>,
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
/// A coordinated read and a read through the cross-trainer cache have no end.
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
    };
    let params = Params::encode(&parameters)
        .ok_or_else(|| ServiceError::Definition("the parameters are too long".to_owned()))?;
    let cardinality = metadata.distributed_cardinality(request.policy, request.num_consumers);
    Ok(Dataset::from_service(ServiceReader {
        params,
        spec: SpecField(metadata.spec),
        count: (cardinality == Cardinality::Finite(0)).then_some(0),
        infinite: cardinality == Cardinality::Infinite,
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
    service: Option<Service>,
    job: JobId,
    /// `true` if the job has a name, so that other readers can share it.
    is_shared: bool,
    config: ReaderConfig,
    cancel: Cancel,
    /// The hook that wakes callers waiting for the dispatcher.
    _hook: CancelHook,
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
        let job = service.job(&request).map_err(unanswered)?;
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
            ..ReaderConfig::default()
        };
        Ok(Self {
            service: Some(service),
            job,
            is_shared,
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
        let reader = service.read(self.job, pass, &self.config).map_err(unanswered)?;
        Ok(Box::new(Elements::new(reader, self.is_shared, &self.cancel)))
    }
}

impl Drop for Passes {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
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
        element.as_ref().map(value).transpose()
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// Returns the components of an element, which share the element's memory.
fn value(element: &Element) -> Result<Value, ExecError> {
    (0..element.len())
        .map(|index| tensor(element, index).map_err(peer))
        .collect()
}

fn tensor(element: &Element, index: usize) -> Result<Tensor, String> {
    let (view, slot) = element
        .component(index)
        .zip(element.component_slot(index))
        .ok_or("an element lacks a component")?;
    let (dtype, dims, shared) = (view.dtype(), view.dims(), Bytes::from_owner(slot));
    if !matches!(dtype, Dtype::String | Dtype::Bytes) {
        return Tensor::fixed(dtype, dims, shared);
    }
    let strings = view.strings().map_err(|error| error.to_string())?;
    Tensor::strings(
        dtype,
        dims,
        strings.iter().map(|item| shared.slice_ref(item)).collect(),
    )
}

fn caller(error: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Caller, OP, error.to_string())
}

/// Converts an error of the service to a failure of the dataset.
fn unanswered(error: ServiceError) -> ExecError {
    let kind = match &error {
        ServiceError::GivenUp => ErrorKind::Cancelled,
        ServiceError::Dispatcher(error) => match error.code {
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unimplemented => ErrorKind::Caller,
            Code::NotFound => ErrorKind::NotFound,
            Code::ResourceExhausted => ErrorKind::Resource,
            Code::Unavailable | Code::DeadlineExceeded | Code::Aborted => ErrorKind::Peer,
            Code::Internal => ErrorKind::Internal,
        },
        ServiceError::Address(_)
        | ServiceError::Key(_)
        | ServiceError::Dataset(_)
        | ServiceError::Definition(_) => ErrorKind::Caller,
        ServiceError::Socket(_) => ErrorKind::Peer,
        ServiceError::Lane(_) => ErrorKind::Resource,
    };
    ExecError::new(kind, OP, error.to_string()).caused_by(Arc::new(error))
}

/// Converts an error of the reader to a failure of the dataset.
fn unread(error: ReadError) -> ExecError {
    let kind = match &error {
        ReadError::Task { failure, .. } => kind_of(&failure.code),
        ReadError::Cancelled => ErrorKind::Cancelled,
        ReadError::Refused { .. } => ErrorKind::Caller,
        ReadError::ElementTooLarge { .. } => ErrorKind::Resource,
        ReadError::Element { .. } | ReadError::DataLost(_) => ErrorKind::Data,
        ReadError::ReaderMisbehaved { .. } | ReadError::Internal { .. } => ErrorKind::Internal,
        // The listed errors are the fault of workers, of the dispatcher or of other readers. New variants
        // count as the same kind.
        ReadError::WorkerUnreachable { .. }
        | ReadError::WorkerMisbehaved { .. }
        | ReadError::WorkersLost { .. }
        | ReadError::ConsumersLost { .. }
        | ReadError::Dispatcher(_)
        | ReadError::ShutDown { .. }
        | _ => ErrorKind::Peer,
    };
    let mut failed = ExecError::new(kind, OP, error.to_string());
    if let ReadError::Task { failure, .. } = &error
        && !failure.traceback.is_empty()
    {
        failed = failed.with_traceback(&*failure.traceback);
    }
    failed.caused_by(Arc::new(error))
}

/// Returns the kind that a task's failure had on its worker.
fn kind_of(code: &str) -> ErrorKind {
    match code {
        "caller" => ErrorKind::Caller,
        "failed_precondition" => ErrorKind::Precondition,
        "user_function" | "task" => ErrorKind::UserFunction,
        "data" => ErrorKind::Data,
        "not_found" => ErrorKind::NotFound,
        "resource" => ErrorKind::Resource,
        "internal" => ErrorKind::Internal,
        // A task that was cancelled on its worker was not cancelled by this process.
        _ => ErrorKind::Peer,
    }
}

fn peer(error: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Peer, OP, error.to_string())
}
