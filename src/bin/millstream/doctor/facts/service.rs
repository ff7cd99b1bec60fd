//! The facts of a service: a connection to its dispatcher, the time of an answer, the dispatcher's version
//! and clock, and its workers.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millstream::control::rpc::SessionConfig;
use millstream::control::{Code, Status, WorkerStatus};
use millstream::link::{KeyMaterial, LoadedKey, Role};
use millstream::{Service, ServiceConfig, ServiceError};

use crate::asking;

/// The dispatcher of a service on this machine, which is checked if the user names no dispatcher.
pub(in super::super) const DEFAULT_ADDRESS: &str = "127.0.0.1:5050";
/// The time for a connection to a dispatcher that the user did not name.
const DEFAULT_CONNECT_MAX: Duration = Duration::from_secs(1);
/// The time for one answer of the dispatcher.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The number of requests, of which the fastest counts.
const ROUNDS: usize = 3;

/// The facts of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ServiceFacts {
    /// The addresses of the dispatcher.
    pub(in super::super) address: String,
    /// True if the user named the addresses.
    pub(in super::super) is_named: bool,
    /// The outcome of the connection.
    pub(in super::super) outcome: ServiceOutcome,
}

/// The outcome of a connection to a dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum ServiceOutcome {
    /// Without a key, no connection is possible.
    NoKey,
    /// The key is that of dispatchers, which do not connect to each other.
    DispatcherKey,
    /// The connection failed.
    Failed {
        /// The reason.
        reason: String,
        /// True if one side refused the key of the other.
        is_refused: bool,
    },
    /// The dispatcher accepted the connection, and refused to tell its status.
    Silent {
        /// The time for the connection.
        connect: Duration,
        /// The reason of the dispatcher.
        reason: String,
    },
    /// The dispatcher told its status.
    Answered(ServiceAnswer),
}

/// The answers of a dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ServiceAnswer {
    /// The time for the connection, with the handshake.
    pub(in super::super) connect: Duration,
    /// The shortest time between a request and its answer.
    pub(in super::super) round_trip: Duration,
    /// The version of the dispatcher's program, and the difference between its clock and the clock of this
    /// machine. `None` if the program is too old to tell.
    pub(in super::super) program: Option<ProgramFacts>,
    /// The number of readers.
    pub(in super::super) clients: u64,
    /// The workers, including workers that died within the last minutes.
    pub(in super::super) workers: Vec<WorkerFacts>,
}

/// The program of a dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ProgramFacts {
    /// The version of the program.
    pub(in super::super) version: String,
    /// The time by which the dispatcher's clock is ahead of the clock of this machine, in milliseconds. Exact
    /// within half of the round trip.
    pub(in super::super) clock_ahead_ms: i64,
}

/// One worker of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct WorkerFacts {
    /// The address of the worker.
    pub(in super::super) address: String,
    /// The version of the worker's program.
    pub(in super::super) version: String,
    /// The reason of the worker's death; `None` while the worker lives.
    pub(in super::super) death: Option<String>,
    /// True if the worker is in graceful shutdown.
    pub(in super::super) is_draining: bool,
}

/// Connects to a dispatcher with the key, and asks for the status.
pub(in super::super) fn service(key: Option<&LoadedKey>, dispatcher: Option<&str>) -> ServiceFacts {
    let address = dispatcher.unwrap_or(DEFAULT_ADDRESS);
    let outcome = match key {
        None => ServiceOutcome::NoKey,
        Some(key) if is_dispatcher_key(key) => ServiceOutcome::DispatcherKey,
        Some(key) => ask(key, address, dispatcher.is_some()),
    };
    ServiceFacts {
        address: address.to_owned(),
        is_named: dispatcher.is_some(),
        outcome,
    }
}

fn ask(key: &LoadedKey, address: &str, is_named: bool) -> ServiceOutcome {
    let connect_deadline = (!is_named).then_some(DEFAULT_CONNECT_MAX);
    let begun = Instant::now();
    let service = match Service::connect(key, address, config(connect_deadline)) {
        Ok(service) => service,
        Err(error) => return failed(&error),
    };
    let connect = begun.elapsed();
    let timed = || {
        let begun = Instant::now();
        let status = service.status()?;
        let time = begun.elapsed();
        let program = program(&status, time);
        Ok::<_, ServiceError>((time, program, status))
    };
    let mut fastest = match timed() {
        Ok(first) => first,
        Err(error) => {
            let reason = error.to_string();
            return ServiceOutcome::Silent { connect, reason };
        }
    };
    for _ in 1..ROUNDS {
        match timed() {
            Ok(next) if next.0 < fastest.0 => fastest = next,
            Ok(_) | Err(_) => {}
        }
    }
    service.close();
    let (round_trip, program, status) = fastest;
    ServiceOutcome::Answered(answer(connect, round_trip, program, &status))
}

/// Returns the dispatcher's version, and the difference of the clocks. The dispatcher read its clock about
/// half of the round trip ago.
fn program(status: &Status, round_trip: Duration) -> Option<ProgramFacts> {
    let program = &status.program;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let read = since.saturating_sub(round_trip / 2).as_millis();
    let milliseconds = |time: u128| i64::try_from(time).unwrap_or(i64::MAX);
    (!program.version.is_empty()).then(|| ProgramFacts {
        version: program.version.clone(),
        clock_ahead_ms: milliseconds(program.unix_ms.into()).saturating_sub(milliseconds(read)),
    })
}

fn is_dispatcher_key(key: &LoadedKey) -> bool {
    matches!(&key.keys.own, KeyMaterial::Role(key) if key.role() == Role::Dispatcher)
}

fn failed(error: &ServiceError) -> ServiceOutcome {
    let is_refused = matches!(error, ServiceError::Dispatcher(error) if error.code == Code::PermissionDenied);
    ServiceOutcome::Failed {
        reason: error.to_string(),
        is_refused,
    }
}

/// Returns the settings of a connection. `connect_deadline` replaces the deadline of other commands.
pub(super) fn config(connect_deadline: Option<Duration>) -> ServiceConfig {
    let given = asking::config();
    let connect_deadline = connect_deadline.unwrap_or(given.session.connect_deadline);
    let session = SessionConfig {
        connect_deadline,
        request_deadline: ANSWER_MAX,
        // The finding tells the same.
        on_waiting: Some(Arc::new(|_| {})),
        ..given.session
    };
    ServiceConfig { session, ..given }
}

fn answer(
    connect: Duration,
    round_trip: Duration,
    program: Option<ProgramFacts>,
    status: &Status,
) -> ServiceAnswer {
    let worker = |worker: &WorkerStatus| WorkerFacts {
        address: worker.address.clone(),
        version: worker.version.clone(),
        death: worker.dead.clone(),
        is_draining: worker.draining,
    };
    ServiceAnswer {
        connect,
        round_trip,
        program,
        clients: status.counts.clients,
        workers: status.workers.iter().map(worker).collect(),
    }
}
