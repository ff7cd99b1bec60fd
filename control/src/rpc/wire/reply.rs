//! The wire types of answers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::dispatcher::{DatasetRecord, Reply, Run, Status, TaskDef};
use crate::error::Error;
use crate::exactly_once::ExactlyOnce;
use crate::id::{ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};
use crate::job::Policy;
use crate::planner::{DatasetFacts, SplitPlan};
use crate::split::PayloadVersion;

/// The answer to a request, or its refusal.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct WireResponse {
    #[n(0)]
    pub(crate) result: Result<WireReply, Error>,
}

#[derive(Clone, Debug, Encode, Decode)]
pub(crate) enum WireReply {
    #[n(0)]
    Done,
    #[n(1)]
    Dataset(#[n(0)] DatasetId),
    #[n(2)]
    DatasetInfo {
        #[n(0)]
        id: DatasetId,
        #[n(1)]
        facts: DatasetFacts,
    },
    #[n(3)]
    Job(#[n(0)] JobId),
    #[n(4)]
    Client(#[n(0)] ClientId, #[n(1)] Option<u64>),
    #[n(5)]
    Splits {
        #[n(0)]
        runs: Vec<LeasedRun>,
        #[n(1)]
        end: bool,
        #[cbor(n(2), default)]
        current: u64,
        #[cbor(n(3), default)]
        more: bool,
    },
    #[n(6)]
    Task(#[n(0)] WireTask),
    #[n(7)]
    Worker(#[n(0)] WorkerId),
    #[n(8)]
    Status(#[n(0)] Status),
    #[n(9)]
    Definition(#[n(0)] ByteVec),
}

/// Leased splits with their payloads.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct LeasedRun {
    #[n(0)]
    pub(crate) run: Run,
    /// The payload of each split, or no payloads for a source without payloads.
    #[n(1)]
    pub(crate) payloads: Vec<ByteVec>,
    /// The version of each payload's file, or no versions if the plan has none.
    #[cbor(n(2), default)]
    pub(crate) versions: Vec<PayloadVersion>,
}

#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct WireTask {
    #[n(0)]
    task: TaskId,
    #[n(1)]
    iteration: IterationId,
    #[n(2)]
    job: JobId,
    #[n(3)]
    repetition: u64,
    #[n(4)]
    policy: Policy,
    #[n(5)]
    worker_index: u64,
    #[cbor(n(6), with = "crate::shared")]
    dataset: Arc<DatasetRecord>,
    #[cbor(n(7), with = "crate::shared")]
    plan: Arc<SplitPlan>,
    #[cbor(n(8), default)]
    worker_count: u64,
    #[n(9)]
    num_consumers: Option<u32>,
    #[cbor(n(10), default)]
    cross_trainer_cache: bool,
    #[n(11)]
    exactly_once: Option<ExactlyOnce>,
}

impl From<TaskDef> for WireTask {
    fn from(task: TaskDef) -> WireTask {
        WireTask {
            task: task.task,
            iteration: task.iteration,
            job: task.job,
            repetition: task.repetition,
            policy: task.policy,
            worker_index: task.worker_index,
            worker_count: task.worker_count,
            num_consumers: task.num_consumers,
            cross_trainer_cache: task.cross_trainer_cache,
            exactly_once: task.exactly_once,
            dataset: task.dataset,
            plan: task.plan,
        }
    }
}

impl From<WireTask> for TaskDef {
    fn from(task: WireTask) -> TaskDef {
        TaskDef {
            task: task.task,
            iteration: task.iteration,
            job: task.job,
            repetition: task.repetition,
            policy: task.policy,
            worker_index: task.worker_index,
            worker_count: task.worker_count,
            num_consumers: task.num_consumers,
            cross_trainer_cache: task.cross_trainer_cache,
            exactly_once: task.exactly_once,
            dataset: task.dataset,
            plan: task.plan,
        }
    }
}

impl From<Reply> for WireReply {
    fn from(reply: Reply) -> WireReply {
        match reply {
            Reply::Done => WireReply::Done,
            Reply::Dataset(id) => WireReply::Dataset(id),
            Reply::DatasetInfo(record) => WireReply::DatasetInfo {
                id: record.id.clone(),
                facts: record.facts.clone(),
            },
            Reply::Definition(record) => WireReply::Definition(record.definition.clone()),
            Reply::Job(id) => WireReply::Job(id),
            Reply::Client(id, files) => WireReply::Client(id, files),
            Reply::Splits {
                runs,
                end,
                current,
                more,
                plan,
            } => WireReply::Splits {
                runs: runs.into_iter().map(|run| leased(run, &plan)).collect(),
                end,
                current,
                more,
            },
            Reply::Task(task) => WireReply::Task((*task).into()),
            Reply::Worker(id) => WireReply::Worker(id),
            Reply::Status(status) => WireReply::Status(*status),
        }
    }
}

/// Returns the error for an answer that does not fit its request, which is a defect of the dispatcher.
pub(crate) fn unexpected() -> Error {
    Error::internal("the dispatcher's answer does not fit the request")
}

fn leased(run: Run, plan: &SplitPlan) -> LeasedRun {
    let source = usize::try_from(run.source)
        .ok()
        .and_then(|source| plan.sources.get(source));
    let indices = run.first_index..run.first_index + run.count;
    let versions = source.map_or(&[][..], |source| source.versions(indices.clone()));
    let payloads = match source {
        Some(source) if source.has_payloads() => indices
            .map(|index| ByteVec::from(source.payload(index).to_vec()))
            .collect(),
        Some(_) | None => Vec::new(),
    };
    LeasedRun {
        run,
        payloads,
        versions: versions.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::SourcePlan;

    /// The wire types of earlier versions, which had no versions of files.
    #[derive(Debug, PartialEq, Encode, Decode)]
    struct EarlierRun {
        #[n(0)]
        run: Run,
        #[n(1)]
        payloads: Vec<ByteVec>,
    }

    #[derive(Debug, PartialEq, Encode, Decode)]
    enum EarlierSource {
        #[n(1)]
        Listed {
            #[n(0)]
            items: Vec<ByteVec>,
        },
    }

    #[derive(Debug, PartialEq, Encode, Decode)]
    enum EarlierReply {
        #[n(4)]
        Client(#[n(0)] ClientId),
    }

    fn sent<T: for<'b> Decode<'b, ()>>(message: impl Encode<()>) -> T {
        minicbor::decode(&minicbor::to_vec(message).unwrap()).unwrap()
    }

    /// Tests that peers without versions of files can exchange messages and records with this version
    /// (C16.10).
    #[test]
    fn peers_without_versions_are_understood() {
        let run = Run {
            source: 0,
            repetition: 0,
            first_index: 0,
            count: 1,
            first_lease: 0,
            attempt: 0,
            seen: false,
            deaths: 0,
            skipped: false,
        };
        let payloads = vec![ByteVec::from(vec![7])];
        let earlier = EarlierRun {
            run,
            payloads: payloads.clone(),
        };
        let later = LeasedRun {
            run,
            payloads: payloads.clone(),
            versions: vec![[1; 16].into()],
        };
        assert_eq!(sent::<EarlierRun>(&later), earlier);
        assert!(sent::<LeasedRun>(&earlier).versions.is_empty());

        let source = SourcePlan::listed_in_versions([(vec![7], [1; 16])], Some(5));
        let earlier = EarlierSource::Listed { items: payloads };
        assert_eq!(sent::<EarlierSource>(&source), earlier);
        assert_eq!(sent::<SourcePlan>(&earlier), SourcePlan::listed([vec![7]]));

        let earlier = EarlierReply::Client(ClientId(3));
        let later = WireReply::Client(ClientId(3), Some(5));
        assert_eq!(sent::<EarlierReply>(&later), earlier);
        assert!(matches!(
            sent::<WireReply>(&earlier),
            WireReply::Client(ClientId(3), None)
        ));
    }
}
