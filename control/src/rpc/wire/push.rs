//! The wire types of the messages that the dispatcher sends without a request.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::dispatcher::{
    ClientPush, RemovalReason, Snapshot, StopReason, TaskConcluded, TaskFailure, TaskInfo, TaskRemoved,
    WorkerPush,
};
use crate::exactly_once::FailedElement;
use crate::id::{ClientId, TaskId, WorkerId};
use crate::split::SplitRange;
use crate::whereabouts::Whereabouts;

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WirePush {
    /// The answer to a heartbeat.
    #[n(0)]
    Beat(#[n(0)] u64),
    #[n(1)]
    Client(#[n(0)] ClientId, #[n(1)] WireClientPush),
    #[n(2)]
    Worker(#[n(0)] WireWorkerPush),
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WireClientPush {
    #[n(0)]
    Snapshot {
        #[n(0)]
        tasks: Vec<WireTaskInfo>,
        #[n(1)]
        removed: Vec<WireRemoved>,
        #[n(2)]
        finished: bool,
        #[n(3)]
        lost: Vec<SplitRange>,
        #[n(4)]
        splits_lost: u64,
        #[cbor(n(5), default)]
        failed: Vec<TaskFailure>,
        #[cbor(n(6), default)]
        concluded: Vec<TaskConcluded>,
    },
    #[n(1)]
    TaskAdded(#[n(0)] WireTaskInfo),
    #[n(2)]
    TaskRemoved(#[n(0)] WireRemoved),
    #[n(3)]
    TaskFailed {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        worker_address: String,
        #[n(2)]
        message: String,
        #[n(3)]
        element: Option<FailedElement>,
    },
    #[n(4)]
    SplitsLost {
        #[n(0)]
        splits: Vec<SplitRange>,
        #[n(1)]
        worker_address: String,
    },
    #[n(5)]
    IterationFinished(#[n(0)] u64),
    #[n(6)]
    WorkersLost(#[n(0)] Vec<String>),
    #[n(7)]
    Lapsed,
    #[n(8)]
    TaskEnded(#[n(0)] TaskId),
    #[n(9)]
    TaskScheduled {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        start_round: u64,
    },
    #[n(10)]
    TaskConcluded(#[n(0)] TaskConcluded),
    #[n(11)]
    ConsumersLost(#[n(0)] Vec<u32>),
    #[n(12)]
    ShutDown(#[n(0)] String),
}

impl WirePush {
    /// Returns the process that asked for the shutdown, if the push announces one (C12.1).
    pub(crate) fn shut_down_by(&self) -> Option<&str> {
        match self {
            WirePush::Client(_, WireClientPush::ShutDown(by))
            | WirePush::Worker(WireWorkerPush::ShutDown(by)) => Some(by),
            WirePush::Client(..) | WirePush::Worker(_) | WirePush::Beat(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct WireTaskInfo {
    #[n(0)]
    task: TaskId,
    #[n(1)]
    worker_address: String,
    #[n(2)]
    worker: WorkerId,
    #[n(3)]
    worker_tags: Vec<String>,
    #[n(4)]
    ticket: ByteVec,
    #[n(5)]
    start_round: Option<u64>,
    #[cbor(n(6), default)]
    whereabouts: Whereabouts,
    #[n(7)]
    local_socket: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct WireRemoved {
    #[n(0)]
    task: TaskId,
    #[n(1)]
    worker_address: String,
    #[n(2)]
    reason: RemovalReason,
    #[cbor(n(3), default)]
    start_round: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WireWorkerPush {
    #[n(0)]
    Assigned(#[n(0)] Vec<TaskId>),
    #[n(1)]
    Start(#[n(0)] TaskId),
    #[n(2)]
    Stop(#[n(0)] TaskId, #[n(1)] StopReason),
    #[n(3)]
    ShutDown(#[n(0)] String),
    #[n(4)]
    Release(#[n(0)] ClientId, #[n(1)] Vec<TaskId>),
}

impl From<ClientPush> for WireClientPush {
    fn from(push: ClientPush) -> WireClientPush {
        match push {
            ClientPush::Snapshot(snapshot) => WireClientPush::Snapshot {
                tasks: snapshot.tasks.into_iter().map(Into::into).collect(),
                removed: snapshot.removed.into_iter().map(Into::into).collect(),
                finished: snapshot.finished,
                lost: snapshot.lost,
                splits_lost: snapshot.splits_lost,
                failed: snapshot.failed,
                concluded: snapshot.concluded,
            },
            ClientPush::TaskAdded(task) => WireClientPush::TaskAdded(task.into()),
            ClientPush::TaskRemoved(task) => WireClientPush::TaskRemoved(task.into()),
            ClientPush::TaskFailed {
                task,
                worker_address,
                message,
                element,
            } => WireClientPush::TaskFailed {
                task,
                worker_address,
                message,
                element,
            },
            ClientPush::SplitsLost {
                splits,
                worker_address,
            } => WireClientPush::SplitsLost {
                splits,
                worker_address,
            },
            ClientPush::IterationFinished { splits_lost } => WireClientPush::IterationFinished(splits_lost),
            ClientPush::WorkersLost { workers } => WireClientPush::WorkersLost(workers),
            ClientPush::Lapsed => WireClientPush::Lapsed,
            ClientPush::ShutDown { by } => WireClientPush::ShutDown(by),
            ClientPush::TaskEnded { task } => WireClientPush::TaskEnded(task),
            ClientPush::TaskScheduled { task, start_round } => {
                WireClientPush::TaskScheduled { task, start_round }
            }
            ClientPush::TaskConcluded(concluded) => WireClientPush::TaskConcluded(concluded),
            ClientPush::ConsumersLost { consumers } => WireClientPush::ConsumersLost(consumers),
        }
    }
}

impl From<WireClientPush> for ClientPush {
    fn from(push: WireClientPush) -> ClientPush {
        match push {
            WireClientPush::Snapshot {
                tasks,
                removed,
                finished,
                lost,
                splits_lost,
                failed,
                concluded,
            } => ClientPush::Snapshot(Snapshot {
                tasks: tasks.into_iter().map(Into::into).collect(),
                removed: removed.into_iter().map(Into::into).collect(),
                finished,
                lost,
                splits_lost,
                failed,
                concluded,
            }),
            WireClientPush::TaskAdded(task) => ClientPush::TaskAdded(task.into()),
            WireClientPush::TaskRemoved(task) => ClientPush::TaskRemoved(task.into()),
            WireClientPush::TaskFailed {
                task,
                worker_address,
                message,
                element,
            } => ClientPush::TaskFailed {
                task,
                worker_address,
                message,
                element,
            },
            WireClientPush::SplitsLost {
                splits,
                worker_address,
            } => ClientPush::SplitsLost {
                splits,
                worker_address,
            },
            WireClientPush::IterationFinished(splits_lost) => ClientPush::IterationFinished { splits_lost },
            WireClientPush::WorkersLost(workers) => ClientPush::WorkersLost { workers },
            WireClientPush::Lapsed => ClientPush::Lapsed,
            WireClientPush::ShutDown(by) => ClientPush::ShutDown { by },
            WireClientPush::TaskEnded(task) => ClientPush::TaskEnded { task },
            WireClientPush::TaskScheduled { task, start_round } => {
                ClientPush::TaskScheduled { task, start_round }
            }
            WireClientPush::TaskConcluded(concluded) => ClientPush::TaskConcluded(concluded),
            WireClientPush::ConsumersLost(consumers) => ClientPush::ConsumersLost { consumers },
        }
    }
}

impl From<TaskInfo> for WireTaskInfo {
    fn from(task: TaskInfo) -> WireTaskInfo {
        WireTaskInfo {
            task: task.task,
            worker_address: task.worker_address,
            worker: task.worker,
            worker_tags: task.worker_tags,
            ticket: task.ticket.into(),
            start_round: task.start_round,
            whereabouts: task.whereabouts,
            local_socket: task.local_socket,
        }
    }
}

impl From<WireTaskInfo> for TaskInfo {
    fn from(task: WireTaskInfo) -> TaskInfo {
        TaskInfo {
            task: task.task,
            worker_address: task.worker_address,
            worker: task.worker,
            worker_tags: task.worker_tags,
            ticket: task.ticket.into(),
            start_round: task.start_round,
            whereabouts: task.whereabouts,
            local_socket: task.local_socket,
        }
    }
}

impl From<TaskRemoved> for WireRemoved {
    fn from(removed: TaskRemoved) -> WireRemoved {
        WireRemoved {
            task: removed.task,
            worker_address: removed.worker_address,
            reason: removed.reason,
            start_round: removed.start_round,
        }
    }
}

impl From<WireRemoved> for TaskRemoved {
    fn from(removed: WireRemoved) -> TaskRemoved {
        TaskRemoved {
            task: removed.task,
            worker_address: removed.worker_address,
            reason: removed.reason,
            start_round: removed.start_round,
        }
    }
}

impl From<WorkerPush> for WireWorkerPush {
    fn from(push: WorkerPush) -> WireWorkerPush {
        match push {
            WorkerPush::Assigned { tasks } => WireWorkerPush::Assigned(tasks),
            WorkerPush::Start { task } => WireWorkerPush::Start(task),
            WorkerPush::Stop { task, reason } => WireWorkerPush::Stop(task, reason),
            WorkerPush::Release { client, tasks } => WireWorkerPush::Release(client, tasks),
            WorkerPush::ShutDown { by } => WireWorkerPush::ShutDown(by),
        }
    }
}

impl From<WireWorkerPush> for WorkerPush {
    fn from(push: WireWorkerPush) -> WorkerPush {
        match push {
            WireWorkerPush::Assigned(tasks) => WorkerPush::Assigned { tasks },
            WireWorkerPush::Start(task) => WorkerPush::Start { task },
            WireWorkerPush::Stop(task, reason) => WorkerPush::Stop { task, reason },
            WireWorkerPush::Release(client, tasks) => WorkerPush::Release { client, tasks },
            WireWorkerPush::ShutDown(by) => WorkerPush::ShutDown { by },
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_link::Ticket;

    use super::*;
    use crate::dispatcher::{
        DispatcherConfig, LOCAL_SOCKET_BYTES_MAX, TAGS_BYTES_MAX, TAGS_MAX, WORKER_ADDRESS_BYTES_MAX,
    };
    use crate::rpc::frame::PUSH_BYTES_MAX;

    /// The wire type of a task in earlier versions, which had no whereabouts and no local socket.
    #[derive(Encode, Decode)]
    struct Earlier {
        #[n(0)]
        task: TaskId,
        #[n(1)]
        worker_address: String,
        #[n(2)]
        worker: WorkerId,
        #[n(3)]
        worker_tags: Vec<String>,
        #[n(4)]
        ticket: ByteVec,
        #[n(5)]
        start_round: Option<u64>,
    }

    /// Tests that peers without whereabouts can exchange messages with this version (C1.2, C14.6).
    #[test]
    fn peers_without_whereabouts_are_understood() {
        let earlier = Earlier {
            task: TaskId(1),
            worker_address: "one:1".to_owned(),
            worker: WorkerId(2),
            worker_tags: vec![],
            ticket: vec![7].into(),
            start_round: Some(3),
        };
        let bytes = minicbor::to_vec(&earlier).unwrap();
        let mut told: WireTaskInfo = minicbor::decode(&bytes).unwrap();
        assert_eq!(
            (told.whereabouts, &told.local_socket),
            (Whereabouts::default(), &None)
        );
        (told.whereabouts.host, told.local_socket) = (Some(4), Some("@here".to_owned()));
        let bytes = minicbor::to_vec(&told).unwrap();
        let read: Earlier = minicbor::decode(&bytes).unwrap();
        assert_eq!((read.task, read.start_round), (TaskId(1), Some(3)));
        assert_eq!(minicbor::decode::<WireTaskInfo>(&bytes).unwrap(), told);
    }

    /// A snapshot above the limit would make its reader reconnect for ever.
    #[test]
    fn the_largest_service_fits_into_a_message() {
        let task = WireTaskInfo {
            task: TaskId(u64::MAX),
            worker_address: "a".repeat(WORKER_ADDRESS_BYTES_MAX),
            worker: WorkerId(u64::MAX),
            worker_tags: vec!["t".repeat(TAGS_BYTES_MAX / TAGS_MAX); TAGS_MAX],
            ticket: vec![7; Ticket::SIZE_BYTES].into(),
            start_round: Some(u64::MAX),
            whereabouts: Whereabouts {
                host: Some(u64::MAX),
                ..Whereabouts::default()
            },
            local_socket: Some("s".repeat(LOCAL_SOCKET_BYTES_MAX)),
        };
        let snapshot = WireClientPush::Snapshot {
            tasks: vec![task; DispatcherConfig::default().workers_max],
            removed: Vec::new(),
            finished: false,
            lost: Vec::new(),
            splits_lost: 0,
            failed: Vec::new(),
            concluded: Vec::new(),
        };
        let bytes = minicbor::to_vec(WirePush::Client(ClientId(1), snapshot)).unwrap();
        assert!(bytes.len() < PUSH_BYTES_MAX, "{} bytes", bytes.len());
    }
}
