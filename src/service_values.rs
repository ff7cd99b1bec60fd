//! Conversions from the types of a service's reader to those of datasets: elements to values, and errors to
//! failures. Owns no state.

use std::sync::Arc;

use bytes::Bytes;
use millstream_client::ReadError;
use millstream_control::Code;
use millstream_element::{Dtype, Element};
use millstream_pipeline::exec::{ErrorKind, ExecError, Tensor, Value};

use crate::service::ServiceError;

/// The name of the operation in errors.
pub(crate) const OP: &str = "service";

/// Returns the components of an element from `first` on, which share the element's memory.
pub(crate) fn value_from(element: &Element, first: usize) -> Result<Value, ExecError> {
    (first..element.len())
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

/// Converts an error of the service to a failure of the dataset.
pub(crate) fn unanswered(error: ServiceError) -> ExecError {
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
pub(crate) fn unread(error: ReadError) -> ExecError {
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

pub(crate) fn peer(error: impl ToString) -> ExecError {
    ExecError::new(ErrorKind::Peer, OP, error.to_string())
}
