//! A service as the source of a dataset, so that operations behind it run in the trainer.
//!
//! [`dataset`] writes the node, [`opener`] opens it where the dataset is executed. Refuses to know what runs on workers.

use std::str::FromStr;

use bytes::Bytes;
use millstream_client::{MaxOutstanding, Reader, ReaderConfig};
use millstream_control::{Cardinality, DatasetId, Policy};
use millstream_element::{Dtype, Element, ElementSpec};
use millstream_link::LoadedKey;
use millstream_pipeline::exec::{ErrorKind, ExecError, Source, Tensor, Value};
use millstream_pipeline::graph::{Dataset, Params, ServiceReader, SpecField};
use minicbor::{Decode, Encode};

use crate::local::LocalWorkers;
use crate::service::{ReadRequest, Service, ServiceConfig, ServiceError};

/// The name in errors.
const OP: &str = "service";

/// Where to read, and what: the parameters of the node.
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
    /// Absent: sized by itself.
    #[n(4)]
    max_outstanding: Option<u64>,
}

/// A dataset of what the workers of a service yield. What is appended to it runs where it is executed; every pass over
/// it is a pass of the job.
///
/// # Errors
/// The dispatcher does not know the dataset, or does not answer.
pub fn dataset(
    service: &Service,
    request: &ReadRequest,
    max_outstanding: MaxOutstanding,
) -> Result<Dataset, ServiceError> {
    let facts = service.dataset(&request.dataset)?.facts;
    let spec = ElementSpec::from_bytes(&facts.spec)
        .map_err(|error| ServiceError::Definition(format!("dataset {}: {error}", request.dataset)))?;
    let parameters = Parameters {
        dispatcher: service.dispatcher().to_owned(),
        dataset: request.dataset.to_string(),
        policy: request.policy.to_string(),
        job_name: request.job_name.clone(),
        max_outstanding: match max_outstanding {
            MaxOutstanding::Auto => None,
            MaxOutstanding::Elements(elements) => Some(elements),
        },
    };
    let params = Params::encode(&parameters)
        .ok_or_else(|| ServiceError::Definition("the parameters are too long".to_owned()))?;
    // How many workers there will be, and what each of them makes of a last batch, is not known.
    let infinite = facts.cardinality == Cardinality::Infinite;
    Ok(Dataset::from_service(ServiceReader {
        params,
        spec: SpecField(spec),
        count: None,
        infinite,
    }))
}

/// What opens such a node: for [`Functions::with_service`](millstream_pipeline::exec::Functions::with_service).
pub fn opener(
    key: LoadedKey,
    local: LocalWorkers,
) -> impl Fn(&Params, u64) -> Result<Box<dyn Source>, ExecError> + Send + Sync + 'static {
    move |params, pass| {
        let parameters: Parameters = params.decode().map_err(caller)?;
        let dataset = DatasetId::new(&parameters.dataset).map_err(caller)?;
        let policy = Policy::from_str(&parameters.policy).map_err(caller)?;
        let request = ReadRequest {
            dataset,
            policy,
            job_name: parameters.job_name,
        };
        let config = ServiceConfig {
            local: local.clone(),
            ..ServiceConfig::default()
        };
        let service = Service::connect(&key, &parameters.dispatcher, config).map_err(peer)?;
        let job = service.job(&request).map_err(peer)?;
        let max_outstanding = parameters
            .max_outstanding
            .map_or(MaxOutstanding::Auto, MaxOutstanding::Elements);
        let config = ReaderConfig {
            max_outstanding,
            ..ReaderConfig::default()
        };
        let reader = service.read(job, pass, &config).map_err(peer)?;
        Ok(Box::new(Elements {
            reader,
            _service: service,
        }))
    }
}

/// A pass being read.
struct Elements {
    reader: Reader,
    /// Says that this client lives.
    _service: Service,
}

impl Source for Elements {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let element = self.reader.next_element().map_err(peer)?;
        element.as_ref().map(value).transpose()
    }
}

/// The components of an element, sharing its memory.
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

fn peer(error: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Peer, OP, error.to_string())
}
