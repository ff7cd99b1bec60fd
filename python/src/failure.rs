//! Conversion of the library's errors to exceptions of the package's module `errors`, which have TensorFlow's
//! names.

use millstream::client::{DataLoss, ReadError};
use millstream::control::{Code, Error};
use millstream::link::LaneError;
use millstream::pipeline::exec::{ErrorKind, ExecError};
use millstream::pipeline::graph::{AnalysisError, GraphError};
use millstream::{DispatcherError, ServiceError, WorkerError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the exception `name` of the package with a message.
pub(crate) fn raise(name: &str, message: impl ToString) -> PyErr {
    raise_with(name, &message.to_string(), &[])
}

/// Returns the exception `name` of the package with a message and attributes.
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

/// Converts a refusal of the control plane.
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

/// Returns the exception class for an error of a lane. A failure to start a thread means that resources are
/// exhausted.
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

/// Converts an error of a dispatcher's start or end.
pub(crate) fn dispatcher(error: DispatcherError) -> PyErr {
    let class = match &error {
        DispatcherError::Key(_) => "PermissionDeniedError",
        DispatcherError::Start(_) | DispatcherError::Etcd(_) => "UnavailableError",
        DispatcherError::Audit { .. } | DispatcherError::Access(_) | DispatcherError::NotAdvertised(_) => {
            "InvalidArgumentError"
        }
        DispatcherError::WorkDir(_) | DispatcherError::Store(_) => "DataLossError",
        DispatcherError::Lane(lane) => class_of_lane(lane),
    };
    raise(class, error)
}

/// Converts an error of a worker's start or end.
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

/// Converts a mistake in a chain of operations.
pub(crate) fn dataset(error: GraphError) -> PyErr {
    raise("InvalidArgumentError", error)
}

/// Converts an error of operations that do not fit together.
pub(crate) fn analysis(error: AnalysisError) -> PyErr {
    raise("InvalidArgumentError", error)
}

/// Converts the failure of a pipeline in this process.
pub(crate) fn execution(error: &ExecError) -> PyErr {
    let failure = error.failure();
    // An error from a service that the pipeline reads is raised as if the service were read without the
    // pipeline.
    if let Some(cause) = &failure.cause {
        if let Some(error) = cause.downcast_ref::<ReadError>() {
            return read(error);
        }
        if let Some(error) = cause.downcast_ref::<ServiceError>() {
            return service_of(error);
        }
    }
    let class = match failure.kind {
        ErrorKind::Caller | ErrorKind::Value => "InvalidArgumentError",
        ErrorKind::Precondition => "FailedPreconditionError",
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

/// Converts the error that ended a reader.
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
        // A variant that is added later counts as an internal error until this match lists the variant.
        ReadError::WorkerMisbehaved { .. }
        | ReadError::ReaderMisbehaved { .. }
        | ReadError::Internal { .. }
        | _ => raise("InternalError", error),
    }
}

/// Returns the exception for lost splits, which lists the splits.
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
