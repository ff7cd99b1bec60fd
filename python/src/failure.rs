//! Errors of the library as exceptions of the package's module `errors`, named as TensorFlow names its own.

use millstream::client::{DataLoss, ReadError};
use millstream::control::{Code, Error};
use millstream::link::LaneError;
use millstream::pipeline::exec::{ErrorKind, ExecError};
use millstream::pipeline::graph::{AnalysisError, GraphError};
use millstream::{DispatcherError, ServiceError, WorkerError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception `name` of the package, with a message.
pub(crate) fn raise(name: &str, message: impl ToString) -> PyErr {
    raise_with(name, &message.to_string(), &[])
}

/// Raises an exception with attributes.
fn raise_with(name: &str, message: &str, attributes: &[(&str, &str)]) -> PyErr {
    Python::attach(|py| {
        let made = || -> PyResult<Bound<'_, PyAny>> {
            let arguments = PyDict::new(py);
            for (key, value) in attributes {
                arguments.set_item(key, value)?;
            }
            let class = py.import("millstream.errors")?.getattr(name)?;
            class.call((message,), Some(&arguments))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    })
}

/// A refusal of the control plane.
pub(crate) fn refused(error: &Error) -> PyErr {
    raise(class_of(error.code), &error.message)
}

fn class_of(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "InvalidArgumentError",
        Code::NotFound => "NotFoundError",
        Code::FailedPrecondition => "FailedPreconditionError",
        Code::PermissionDenied => "PermissionDeniedError",
        Code::Unimplemented => "UnimplementedError",
        Code::ResourceExhausted => "ResourceExhaustedError",
        Code::Unavailable => "UnavailableError",
        Code::DeadlineExceeded => "DeadlineExceededError",
        Code::Aborted => "AbortedError",
        Code::Internal => "InternalError",
    }
}

/// Returns the class of an error of lanes. Where there are no threads, the system is to blame.
fn class_of_lane(error: &LaneError) -> &'static str {
    match error {
        LaneError::Start { .. } => "ResourceExhaustedError",
        LaneError::Stopped { .. } | LaneError::Stuck { .. } | LaneError::Panicked { .. } => "InternalError",
    }
}

/// Returns the exception for an error of a service.
pub(crate) fn service(error: ServiceError) -> PyErr {
    service_of(&error)
}

fn service_of(error: &ServiceError) -> PyErr {
    match error {
        ServiceError::Dispatcher(error) => refused(error),
        ServiceError::Address(_) | ServiceError::Definition(_) | ServiceError::Dataset(_) => {
            raise("InvalidArgumentError", error)
        }
        ServiceError::Key(_) => raise("PermissionDeniedError", error),
        ServiceError::Socket(_) => raise("UnavailableError", error),
        ServiceError::GivenUp => raise("CancelledError", error),
        ServiceError::Lane(lane) => raise(class_of_lane(lane), error),
    }
}

/// Why a dispatcher does not start.
pub(crate) fn dispatcher(error: DispatcherError) -> PyErr {
    let class = match &error {
        DispatcherError::Key(_) => "PermissionDeniedError",
        DispatcherError::Start(_) => "UnavailableError",
        DispatcherError::Audit { .. } | DispatcherError::Access(_) => "InvalidArgumentError",
        DispatcherError::WorkDir(_) | DispatcherError::Store(_) => "DataLossError",
        DispatcherError::Lane(lane) => class_of_lane(lane),
    };
    raise(class, error)
}

/// Why a worker does not start.
pub(crate) fn worker(error: WorkerError) -> PyErr {
    match error {
        WorkerError::Dispatcher(error) => refused(&error),
        WorkerError::Address(_) | WorkerError::Settings(_) => raise("InvalidArgumentError", error),
        WorkerError::Bind(_) => raise("UnavailableError", error),
        WorkerError::Resource(_) => raise("ResourceExhaustedError", error),
        WorkerError::GivenUp => raise("CancelledError", error),
        WorkerError::Lane(ref lane) => raise(class_of_lane(lane), error),
    }
}

/// A mistake in a chain of operations.
pub(crate) fn dataset(error: GraphError) -> PyErr {
    raise("InvalidArgumentError", error)
}

/// Operations that do not fit each other.
pub(crate) fn analysis(error: AnalysisError) -> PyErr {
    raise("InvalidArgumentError", error)
}

/// Why a pipeline in this process stopped.
pub(crate) fn execution(error: &ExecError) -> PyErr {
    let failure = error.failure();
    // What a service that is read said is raised as if it were read directly.
    if let Some(cause) = &failure.cause {
        if let Some(error) = cause.downcast_ref::<ReadError>() {
            return read(error);
        }
        if let Some(error) = cause.downcast_ref::<ServiceError>() {
            return service_of(error);
        }
    }
    let class = match failure.kind {
        ErrorKind::Caller => "InvalidArgumentError",
        ErrorKind::UserFunction => "UserFunctionError",
        ErrorKind::Data => "DataLossError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Resource => "ResourceExhaustedError",
        ErrorKind::Peer => "UnavailableError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Internal => "InternalError",
    };
    raise_failure(class, &error.to_string(), "", "", failure.traceback.as_deref())
}

/// Why a reader has no further elements.
pub(crate) fn read(error: &ReadError) -> PyErr {
    match error {
        ReadError::Task { worker, failure } => {
            let class = match failure.code.as_str() {
                "caller" => "InvalidArgumentError",
                "data" => "DataLossError",
                "not_found" => "NotFoundError",
                "resource" => "ResourceExhaustedError",
                "peer" => "UnavailableError",
                "cancelled" => "CancelledError",
                "failed_precondition" => "FailedPreconditionError",
                "user_function" | "task" => "UserFunctionError",
                _ => "InternalError",
            };
            raise_failure(
                class,
                &error.to_string(),
                worker,
                &failure.origin,
                Some(&failure.traceback),
            )
        }
        ReadError::DataLost(loss) => data_lost(&error.to_string(), loss),
        ReadError::WorkerUnreachable { .. }
        | ReadError::WorkersLost { .. }
        | ReadError::NoWorkers { .. }
        | ReadError::DispatcherUnreachable(_) => raise("UnavailableError", error),
        ReadError::ConsumersLost { .. } => raise("AbortedError", error),
        ReadError::Lapsed => raise("NotFoundError", error),
        ReadError::Dispatcher(_) => raise("AbortedError", error),
        ReadError::ShutDown { .. } => raise("UnavailableError", error),
        ReadError::Refused { .. } => raise("FailedPreconditionError", error),
        ReadError::ElementTooLarge { .. } | ReadError::WorkerFull { .. } => {
            raise("ResourceExhaustedError", error)
        }
        ReadError::Element { .. } => raise("DataLossError", error),
        ReadError::Cancelled => raise("CancelledError", error),
        // What is added later is nobody else's fault until it is named here.
        ReadError::WorkerMisbehaved { .. }
        | ReadError::ReaderMisbehaved { .. }
        | ReadError::Internal { .. }
        | _ => raise("InternalError", error),
    }
}

/// Splits that were lost, as an exception that lists them.
fn data_lost(message: &str, loss: &DataLoss) -> PyErr {
    Python::attach(|py| {
        let made = || -> PyResult<Bound<'_, PyAny>> {
            let ranges = loss.ranges.iter().map(|range| {
                let splits = range.splits;
                let place = (splits.source, splits.repetition, splits.first, splits.count);
                (place, range.worker.as_str(), range.cause.as_str())
            });
            let ranges: Vec<_> = ranges.collect();
            let class = py.import("millstream.errors")?.getattr("DataLossError")?;
            class.call_method1("of_splits", (message, ranges))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    })
}

fn raise_failure(class: &str, message: &str, worker: &str, origin: &str, traceback: Option<&str>) -> PyErr {
    let attributes = [
        ("worker", worker),
        ("origin", origin),
        ("remote_traceback", traceback.unwrap_or_default()),
    ];
    raise_with(class, message, &attributes)
}
