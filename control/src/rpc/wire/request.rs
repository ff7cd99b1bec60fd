//! The wire types of requests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_link::TicketKey;
use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use crate::dispatcher::{FailureReport, Request, WorkerRegistration};
use crate::error::Error;
use crate::exactly_once::{ExactlyOnce, FailedElement};
use crate::id::{ClientId, DatasetId, JobId, RequestNumber, TaskId};
use crate::job::{Abandoned, JobParameters, Policy, TargetWorkers};
use crate::planner::DatasetFacts;
use crate::split::{LeaseRange, Seen, SplitPace};
use crate::whereabouts::Whereabouts;

/// A request with its number.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct Envelope {
    #[n(0)]
    pub(crate) number: Option<RequestNumber>,
    #[n(1)]
    pub(crate) settled_below: RequestNumber,
    #[n(2)]
    pub(crate) request: WireRequest,
}

#[derive(Clone, Debug, Encode, Decode)]
pub(crate) enum WireRequest {
    #[n(0)]
    RegisterDataset {
        #[n(0)]
        id: Option<String>,
        #[n(1)]
        definition: ByteVec,
    },
    #[n(1)]
    DescribeDataset {
        #[n(0)]
        id: String,
    },
    #[n(2)]
    CreateJob {
        #[n(0)]
        name: Option<String>,
        #[n(1)]
        dataset: String,
        #[n(2)]
        policy: Policy,
        #[n(3)]
        target_workers: TargetWorkers,
        #[n(4)]
        num_consumers: Option<u32>,
        #[n(5)]
        cross_trainer_cache: Option<bool>,
        #[cbor(n(6), default)]
        abandoned: Abandoned,
        #[cbor(n(7), default)]
        in_order: bool,
        #[n(8)]
        exactly_once: Option<ExactlyOnce>,
    },
    #[n(3)]
    OpenIteration {
        #[n(0)]
        job: JobId,
        #[n(1)]
        repetition: u64,
        #[n(2)]
        consumer: Option<u32>,
        #[cbor(n(3), default)]
        whereabouts: Whereabouts,
    },
    #[n(4)]
    Attach {
        #[n(0)]
        client: ClientId,
    },
    #[n(5)]
    Release {
        #[n(0)]
        client: ClientId,
    },
    #[n(6)]
    Acknowledge {
        #[n(0)]
        client: ClientId,
        #[n(1)]
        task: TaskId,
        #[n(2)]
        seen: Seen,
    },
    #[n(7)]
    SplitsDone {
        #[n(0)]
        client: ClientId,
        #[n(1)]
        task: TaskId,
        #[n(2)]
        leases: Vec<LeaseRange>,
    },
    #[n(8)]
    TaskDrained {
        #[n(0)]
        client: ClientId,
        #[n(1)]
        task: TaskId,
    },
    #[n(9)]
    Status,
    #[n(10)]
    RegisterWorker(#[n(0)] WireRegistration),
    #[n(11)]
    LeaveWorker,
    #[n(12)]
    DescribeTask {
        #[n(0)]
        task: TaskId,
    },
    #[n(13)]
    LeaseSplits {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        source: u32,
        #[n(2)]
        repetition: u64,
        #[n(3)]
        want: u32,
        #[n(4)]
        pace: Option<SplitPace>,
        #[cbor(n(5), default)]
        is_idle: bool,
    },
    #[n(14)]
    ReturnSplits {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        leases: Vec<LeaseRange>,
    },
    #[n(15)]
    FinishTask {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        delivered: bool,
        #[n(2)]
        exhausted: bool,
        #[cbor(n(3), default)]
        cut_short: bool,
    },
    #[n(16)]
    FailTask {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        message: String,
        #[n(2)]
        element: Option<FailedElement>,
    },
    #[n(17)]
    RoundReady {
        #[n(0)]
        client: ClientId,
        #[n(1)]
        task: TaskId,
        #[n(2)]
        earliest: u64,
    },
    #[n(18)]
    VerdictHeard {
        #[n(0)]
        client: ClientId,
        #[n(1)]
        task: TaskId,
    },
    #[n(19)]
    DrainWorker,
    #[n(20)]
    Shutdown {
        #[n(0)]
        who: String,
    },
    #[n(21)]
    SplitsProduced {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        leases: Vec<LeaseRange>,
    },
    #[n(22)]
    ReadDefinition {
        #[n(0)]
        id: String,
    },
    #[n(23)]
    SuspectWorker(#[n(0)] ClientId, #[n(1)] String),
    #[n(24)]
    SplitsWaiting(#[n(0)] ClientId, #[n(1)] TaskId, #[n(2)] Vec<LeaseRange>),
    #[n(25)]
    SplitsMissed(
        #[n(0)] TaskId,
        #[n(1)] ClientId,
        #[n(2)] Vec<LeaseRange>,
        #[n(3)] bool,
    ),
    #[n(26)]
    SplitsShared(#[n(0)] TaskId, #[n(1)] ClientId, #[n(2)] Vec<LeaseRange>),
}

/// The registration of a worker. `Debug` hides the key.
#[derive(Clone, Encode, Decode)]
pub(crate) struct WireRegistration {
    #[n(0)]
    pub(crate) address: String,
    #[n(1)]
    pub(crate) tags: Vec<String>,
    #[n(2)]
    pub(crate) ticket_key: ByteArray<32>,
    #[n(3)]
    pub(crate) version: String,
    #[cbor(n(4), default)]
    pub(crate) whereabouts: Whereabouts,
    #[n(5)]
    pub(crate) local_socket: Option<String>,
}

impl std::fmt::Debug for WireRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WireRegistration({})", self.address)
    }
}

impl From<WireRegistration> for WorkerRegistration {
    fn from(worker: WireRegistration) -> WorkerRegistration {
        WorkerRegistration {
            address: worker.address,
            tags: worker.tags,
            ticket_key: TicketKey::from_bytes(*worker.ticket_key),
            version: worker.version,
            whereabouts: worker.whereabouts,
            local_socket: worker.local_socket,
        }
    }
}

impl From<&WorkerRegistration> for WireRegistration {
    fn from(worker: &WorkerRegistration) -> WireRegistration {
        WireRegistration {
            address: worker.address.clone(),
            tags: worker.tags.clone(),
            ticket_key: worker.ticket_key.to_bytes().into(),
            version: worker.version.clone(),
            whereabouts: worker.whereabouts,
            local_socket: worker.local_socket.clone(),
        }
    }
}

impl WireRequest {
    /// Returns the request that creates a job with these parameters.
    pub(crate) fn create_job(name: Option<String>, parameters: &JobParameters) -> WireRequest {
        WireRequest::CreateJob {
            name,
            dataset: parameters.dataset.as_str().to_owned(),
            policy: parameters.policy,
            target_workers: parameters.target_workers,
            num_consumers: parameters.num_consumers,
            cross_trainer_cache: Some(parameters.cross_trainer_cache),
            abandoned: parameters.abandoned,
            in_order: parameters.in_order,
            exactly_once: parameters.exactly_once.clone(),
        }
    }

    /// Returns whether the request may exceed the limit of small requests.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, WireRequest::RegisterDataset { .. })
    }

    /// Converts a request for a job into the domain's request.
    fn into_job(self) -> Result<Request, Error> {
        let WireRequest::CreateJob {
            name,
            dataset,
            policy,
            target_workers,
            num_consumers,
            cross_trainer_cache,
            abandoned,
            in_order,
            exactly_once,
        } = self
        else {
            return Err(Error::internal(
                "a request of another kind was converted as a request for a job",
            ));
        };
        let parameters = JobParameters {
            dataset: dataset_id(dataset)?,
            policy,
            target_workers,
            num_consumers,
            cross_trainer_cache: cross_trainer_cache.unwrap_or(false),
            abandoned,
            in_order,
            exactly_once,
        };
        Ok(Request::CreateJob { name, parameters })
    }

    /// Converts the wire type into the domain's request. `facts` are the planner's facts of a dataset's
    /// definition.
    ///
    /// # Errors
    /// A field is invalid.
    pub(crate) fn into_domain(self, facts: Option<DatasetFacts>) -> Result<Request, Error> {
        Ok(match self {
            WireRequest::RegisterDataset { id, definition } => registration(id, definition, facts)?,
            WireRequest::DescribeDataset { id } => Request::DescribeDataset { id: dataset_id(id)? },
            WireRequest::ReadDefinition { id } => Request::ReadDefinition { id: dataset_id(id)? },
            job @ WireRequest::CreateJob { .. } => job.into_job()?,
            WireRequest::OpenIteration {
                job,
                repetition,
                consumer,
                whereabouts,
            } => Request::OpenIteration {
                job,
                repetition,
                consumer,
                whereabouts,
            },
            WireRequest::Attach { client } => Request::Attach { client },
            WireRequest::Release { client } => Request::Release { client },
            WireRequest::Acknowledge { client, task, seen } => acknowledgement(client, task, seen)?,
            WireRequest::SplitsDone { client, task, leases } => {
                let leases = ranges(leases)?;
                Request::SplitsDone { client, task, leases }
            }
            WireRequest::SplitsWaiting(client, task, leases) => {
                Request::SplitsWaiting(client, task, ranges(leases)?)
            }
            WireRequest::TaskDrained { client, task } => Request::TaskDrained { client, task },
            WireRequest::RoundReady {
                client,
                task,
                earliest,
            } => Request::RoundReady {
                client,
                task,
                earliest,
            },
            WireRequest::VerdictHeard { client, task } => Request::VerdictHeard { client, task },
            WireRequest::SuspectWorker(client, address) => Request::SuspectWorker { client, address },
            WireRequest::Status => Request::Status,
            WireRequest::Shutdown { who } => Request::Shutdown { by: who },
            worker @ (WireRequest::RegisterWorker(_)
            | WireRequest::LeaveWorker
            | WireRequest::DrainWorker
            | WireRequest::DescribeTask { .. }
            | WireRequest::LeaseSplits { .. }
            | WireRequest::ReturnSplits { .. }
            | WireRequest::SplitsProduced { .. }
            | WireRequest::SplitsMissed(..)
            | WireRequest::SplitsShared(..)
            | WireRequest::FinishTask { .. }
            | WireRequest::FailTask { .. }) => worker.into_worker_request()?,
        })
    }

    fn into_worker_request(self) -> Result<Request, Error> {
        Ok(match self {
            WireRequest::RegisterWorker(worker) => Request::RegisterWorker(worker.into()),
            WireRequest::LeaveWorker => Request::LeaveWorker,
            WireRequest::DrainWorker => Request::DrainWorker,
            WireRequest::DescribeTask { task } => Request::DescribeTask { task },
            WireRequest::LeaseSplits {
                task,
                source,
                repetition,
                want,
                pace,
                is_idle,
            } => Request::LeaseSplits {
                task,
                source,
                repetition,
                want,
                pace,
                is_idle,
            },
            WireRequest::ReturnSplits { task, leases } => returned(task, leases)?,
            WireRequest::SplitsProduced { task, leases } => {
                let leases = ranges(leases)?;
                Request::SplitsProduced { task, leases }
            }
            WireRequest::SplitsMissed(task, client, leases, is_released) => {
                Request::SplitsMissed(task, client, ranges(leases)?, is_released)
            }
            WireRequest::SplitsShared(task, client, of) => Request::SplitsShared(task, client, ranges(of)?),
            WireRequest::FinishTask {
                task,
                delivered,
                exhausted,
                cut_short,
            } => Request::FinishTask {
                task,
                delivered,
                exhausted,
                cut_short,
            },
            WireRequest::FailTask {
                task,
                message,
                element,
            } => Request::FailTask {
                task,
                report: FailureReport { message, element },
            },
            WireRequest::RegisterDataset { .. }
            | WireRequest::DescribeDataset { .. }
            | WireRequest::ReadDefinition { .. }
            | WireRequest::CreateJob { .. }
            | WireRequest::OpenIteration { .. }
            | WireRequest::Attach { .. }
            | WireRequest::Release { .. }
            | WireRequest::Acknowledge { .. }
            | WireRequest::SplitsDone { .. }
            | WireRequest::SplitsWaiting(..)
            | WireRequest::TaskDrained { .. }
            | WireRequest::RoundReady { .. }
            | WireRequest::VerdictHeard { .. }
            | WireRequest::SuspectWorker { .. }
            | WireRequest::Status
            | WireRequest::Shutdown { .. } => {
                return Err(Error::internal("a reader's request was converted as a worker's"));
            }
        })
    }
}

fn acknowledgement(client: ClientId, task: TaskId, seen: Seen) -> Result<Request, Error> {
    let seen = Seen {
        complete: ranges(seen.complete)?,
        partial: ranges(seen.partial)?,
        ..seen
    };
    Ok(Request::Acknowledge { client, task, seen })
}

fn registration(
    id: Option<String>,
    definition: ByteVec,
    facts: Option<DatasetFacts>,
) -> Result<Request, Error> {
    Ok(Request::RegisterDataset {
        id: id.map(dataset_id).transpose()?,
        definition: definition.into(),
        facts: facts.ok_or_else(|| Error::internal("a dataset's definition was not analysed"))?,
    })
}

fn dataset_id(text: String) -> Result<DatasetId, Error> {
    DatasetId::new(&text).map_err(|error| Error::invalid(error.to_string()))
}

fn returned(task: TaskId, leases: Vec<LeaseRange>) -> Result<Request, Error> {
    let leases = ranges(leases)?;
    Ok(Request::ReturnSplits { task, leases })
}

fn ranges(ranges: Vec<LeaseRange>) -> Result<Vec<LeaseRange>, Error> {
    if ranges.iter().any(|range| range.count == 0) {
        return Err(Error::invalid("a range of leases has no leases"));
    }
    // Ranges may overlap. Joining them bounds the work for a message in which thousands of ranges each name
    // every lease (C5.7).
    Ok(LeaseRange::joined(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that repeated ranges are joined (C5.7).
    #[test]
    fn repeated_ranges_are_processed_once() {
        let everything = LeaseRange {
            first: 0,
            count: u64::MAX,
        };
        let (client, task) = (ClientId(1), TaskId(2));
        let seen = Seen {
            complete: vec![everything; 1000],
            partial: vec![everything; 1000],
            released: 0,
        };
        let leases = || vec![everything; 1000];
        let acknowledge = WireRequest::Acknowledge { client, task, seen };
        let Ok(Request::Acknowledge { seen, .. }) = acknowledge.into_domain(None) else {
            panic!("not what was sent")
        };
        assert_eq!((seen.complete.len(), seen.partial.len()), (1, 1));
        for request in [
            WireRequest::SplitsDone {
                client,
                task,
                leases: leases(),
            },
            WireRequest::ReturnSplits {
                task,
                leases: leases(),
            },
            WireRequest::SplitsProduced {
                task,
                leases: leases(),
            },
        ] {
            let (Request::SplitsDone { leases, .. }
            | Request::ReturnSplits { leases, .. }
            | Request::SplitsProduced { leases, .. }) = request.into_domain(None).unwrap()
            else {
                panic!("not what was sent")
            };
            assert_eq!(leases, [everything]);
        }
    }
}
