//! Records of every kind for tests. Equal numbers lead to equal records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::bytes::ByteVec;
use proptest::prelude::*;

use crate::dispatcher::{
    Answer, Blame, Change, ClientRecord, DatasetRecord, HiddenKey, Holding, IterationRecord, JobRecord, Key,
    Ledger, MetaRecord, Phase, QuotaOwner, Record, RemovalReason, RemovalRecord, Run, SessionRecord,
    TaskFailure, TaskPhase, TaskRecord, WorkerRecord,
};
use crate::error::Error;
use crate::exactly_once::{ExactlyOnce, FailedElement, QuarantinedElement};
use crate::id::{
    BootId, ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId,
};
use crate::job::{Abandoned, JobParameters, Policy, TargetWorkers};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::whereabouts::Whereabouts;

/// The number of kinds of records.
const KINDS: u8 = 12;

/// Returns a strategy for changes: stored or deleted records. The ids are few, so that changes often
/// concern the same record.
pub(super) fn change() -> impl Strategy<Value = Change> {
    let put =
        (0..KINDS, 0_u64..4, any::<u64>()).prop_map(|(kind, id, seed)| Change::Put(record(kind, id, seed)));
    // The dispatcher's own record is never deleted.
    let delete = (1..KINDS, 0_u64..4).prop_map(|(kind, id)| Change::Delete(record(kind, id, 0).key()));
    prop_oneof![3 => put, 1 => delete]
}

/// Returns a session's record of about this size.
#[cfg(feature = "etcd")]
pub(super) fn session_of(id: u64, bytes: usize) -> Record {
    let answer = Answer::Refused(Error::aborted("x".repeat(bytes)));
    Record::Session(SessionRecord {
        id: SessionId(id),
        floor: RequestNumber(1),
        answers: BTreeMap::from([(RequestNumber(1), answer)]),
        is_read: false,
    })
}

/// Returns the record that the dispatcher always commits first.
pub(super) fn meta(seed: u64) -> Record {
    Record::Meta(MetaRecord {
        boot: BootId(seed),
        next_dataset: seed.wrapping_add(1),
        next_job: JobId(seed.wrapping_add(2)),
        next_iteration: IterationId(seed.wrapping_add(3)),
        next_client: ClientId(seed.wrapping_add(4)),
        next_task: TaskId(seed.wrapping_add(5)),
        next_worker: WorkerId(seed.wrapping_add(6)),
    })
}

/// Applies a commit to the naive model of a store.
pub(super) fn apply(model: &mut BTreeMap<Key, Record>, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Put(record) => model.insert(record.key(), record.clone()),
            Change::Delete(key) => model.remove(key),
        };
    }
}

/// Returns the records by their keys, like the model. Panics if a key occurs twice.
pub(super) fn by_key(records: Vec<Record>) -> BTreeMap<Key, Record> {
    let count = records.len();
    let map: BTreeMap<Key, Record> = records.into_iter().map(|record| (record.key(), record)).collect();
    assert_eq!(map.len(), count, "a record was loaded twice");
    map
}

/// Returns two records of each kind with different fields, and one of the dispatcher itself.
pub(super) fn record_of_each_kind() -> Vec<Record> {
    let others = (1..KINDS).flat_map(|kind| {
        [
            record(kind, 1, 34 + u64::from(kind)),
            record(kind, 2, u64::MAX / 3),
        ]
    });
    std::iter::once(meta(7)).chain(others).collect()
}

fn record(kind: u8, id: u64, seed: u64) -> Record {
    match kind {
        0 => meta(seed),
        1 => Record::Dataset(Arc::new(dataset(id, seed))),
        2 => Record::Job(job(id, seed)),
        3 => Record::Iteration(iteration(id, seed)),
        4 => Record::Plan(IterationId(id), Arc::new(plan(seed))),
        5 => Record::Ledger(IterationId(id), ledger(seed)),
        6 => Record::Client(ClientRecord {
            id: ClientId(id),
            session: SessionId(seed),
            iteration: IterationId(seed / 3),
            consumer: (seed % 5 == 1).then_some(seed as u32),
            whereabouts: whereabouts(seed),
            reads_before: (seed % 4 == 2).then_some(TaskId(seed)),
            in_hand: holding(seed / 5),
        }),
        7 => Record::Task(task(id, seed)),
        8 => Record::Holding(TaskId(id), holding(seed)),
        9 => Record::Removal(removal(id, seed)),
        10 => Record::Worker(worker(id, seed)),
        _ => Record::Session(session(id, seed)),
    }
}

fn dataset(id: u64, seed: u64) -> DatasetRecord {
    DatasetRecord {
        id: DatasetId::new(&format!("set-{id}")).unwrap(),
        definition: bytes(seed).into(),
        facts: facts(seed),
        owner: (seed % 2 == 1).then_some(SessionId(seed)),
    }
}

/// Returns facts without the fields that later versions added.
fn facts(seed: u64) -> DatasetFacts {
    let cardinality = match seed % 3 {
        0 => Cardinality::Infinite,
        1 => Cardinality::Unknown,
        _ => Cardinality::Finite(seed),
    };
    let unless = |holds: bool| if holds { Ok(()) } else { Err(text(seed)) };
    let splittable: Result<(), String> = unless(seed.is_multiple_of(2));
    let aligned: Result<(), String> = unless(seed.is_multiple_of(5));
    reread((ByteVec::from(bytes(seed / 2)), cardinality, splittable, aligned))
}

fn job(id: u64, seed: u64) -> JobRecord {
    let policies = [
        Policy::Off,
        Policy::Dynamic,
        Policy::File,
        Policy::Data,
        Policy::FileOrData,
        Policy::Hint,
    ];
    let targets = [
        TargetWorkers::Auto,
        TargetWorkers::Any,
        TargetWorkers::Local,
        TargetWorkers::Host,
    ];
    JobRecord {
        id: JobId(id),
        name: text(seed),
        parameters: JobParameters {
            target_workers: targets[seed as usize % targets.len()],
            num_consumers: (seed % 3 == 1).then_some(seed as u32),
            cross_trainer_cache: seed % 4 == 3,
            abandoned: [Abandoned::Waits, Abandoned::Expires, Abandoned::Ends][seed as usize % 3],
            in_order: seed % 5 == 1,
            exactly_once: (seed % 7 == 3).then_some(ExactlyOnce {
                files: seed.is_multiple_of(2).then_some(seed),
                quarantine: seed
                    .is_multiple_of(3)
                    .then(|| vec![QuarantinedElement { split: seed, id: 5 }]),
                seed,
                first: seed / 3,
                step: seed / 5 + 1,
                poison: Default::default(),
            }),
            ..JobParameters::new(
                DatasetId::new("data").unwrap(),
                policies[seed as usize % policies.len()],
            )
        },
        owner: (seed % 4 > 1).then_some(QuotaOwner {
            session: SessionId(seed),
            is_read: seed % 4 == 2,
        }),
    }
}

fn iteration(id: u64, seed: u64) -> IterationRecord {
    let phases = [Phase::Planning, Phase::Running, Phase::Finished, Phase::Collected];
    let failure = |task| TaskFailure {
        task: TaskId(task),
        worker_address: text(seed),
        message: text(seed / 7),
        worker: (seed % 2 == 1).then_some(WorkerId(seed)),
        element: seed.is_multiple_of(4).then_some(FailedElement {
            split: seed,
            id: seed / 2,
            yielded: 4,
        }),
    };
    // The record is encoded like in an earlier version, without the fields that later versions added.
    reread((
        IterationId(id),
        JobId(seed),
        seed / 2,
        phases[seed as usize % phases.len()],
        seed as u32,
        runs(seed).iter().map(Run::splits).collect::<Vec<_>>(),
        seed / 3,
        seed / 5,
        vec![text(seed); seed as usize % 3],
        seed % 3 == 2,
        (0..seed % 3).map(failure).collect::<Vec<_>>(),
        seed / 7,
    ))
}

/// Returns a record whose first fields have these values.
fn reread<T: for<'b> minicbor::Decode<'b, ()>>(fields: impl minicbor::Encode<()>) -> T {
    minicbor::decode(&minicbor::to_vec(fields).unwrap()).unwrap()
}

fn plan(seed: u64) -> SplitPlan {
    let listed = SourcePlan::listed((0..seed % 40).map(|file| bytes(seed / 3 + file)));
    SplitPlan {
        sources: vec![SourcePlan::Counted { splits: seed }, listed],
        seed,
    }
}

/// Returns a ledger with splits that were leased and returned, and are free again.
fn ledger(seed: u64) -> Ledger {
    let splits = 100 + seed % 1000;
    let mut ledger = Ledger::new(&SplitPlan {
        sources: vec![SourcePlan::Counted { splits }, SourcePlan::Counted { splits: 7 }],
        seed: 0,
    });
    for (round, run) in ledger
        .lease(0, seed % 2, 1 + seed % 50, crate::dispatcher::Dealing::default())
        .into_iter()
        .enumerate()
    {
        match (seed as usize + round) % 4 {
            0 => ledger.free(&run),
            1 => ledger.take_back(&run, TaskId(seed)),
            2 => ledger.done(&run),
            _ => ledger.lost(&run),
        }
    }
    ledger
}

fn task(id: u64, seed: u64) -> TaskRecord {
    TaskRecord {
        id: TaskId(id),
        iteration: IterationId(seed),
        worker: WorkerId(seed / 2),
        phase: match seed % 4 {
            0 => TaskPhase::Running,
            1 => TaskPhase::Finished,
            2 => TaskPhase::Failed(text(seed)),
            _ => TaskPhase::Settled,
        },
        drained: clients(seed),
        stopped_early: seed % 3 == 1,
        round: seed as u32,
        start_round: (seed % 5 != 3).then_some(seed),
        ready: (0..seed % 3)
            .map(|consumer| (consumer as u32, seed / 2))
            .collect(),
        cut_short: seed % 5 == 2,
        catches_up: seed % 7 == 2,
        releasing: clients(seed / 3),
        delivered: seed % 7 == 1,
        stopped: seed % 7 == 3,
        alone: None,
    }
}

fn holding(seed: u64) -> Holding {
    let mut holding = Holding::default();
    for run in runs(seed) {
        holding.insert(run);
    }
    holding
}

fn removal(id: u64, seed: u64) -> RemovalRecord {
    let reasons = [
        RemovalReason::WorkerSilent,
        RemovalReason::WorkerRestarted,
        RemovalReason::WorkerLeft,
    ];
    RemovalRecord {
        task: TaskId(id),
        iteration: IterationId(seed),
        worker_address: text(seed),
        reason: reasons[seed as usize % reasons.len()],
        awaiting: clients(seed / 2),
        holding: holding(seed),
        shared: seed % 4 == 1,
        released: seed / 7,
        untold: clients(seed / 3),
        concluded: seed % 3 == 1,
        start_round: seed / 11,
        readers: clients(seed),
        blame: Blame::Nothing,
        ended: BTreeSet::new(),
    }
}

fn worker(id: u64, seed: u64) -> WorkerRecord {
    WorkerRecord {
        id: WorkerId(id),
        session: SessionId(seed),
        address: text(seed),
        tags: vec![text(seed / 2); seed as usize % 4],
        ticket_key: HiddenKey([seed as u8; 32].into()),
        version: text(seed / 3),
        dead: (seed % 2 == 1).then_some(RemovalReason::WorkerSilent),
        index: seed / 5,
        draining: seed % 3 == 2,
        whereabouts: whereabouts(seed / 2),
        local_socket: (seed % 5 == 3).then(|| text(seed)),
    }
}

fn whereabouts(seed: u64) -> Whereabouts {
    Whereabouts {
        host: (seed % 3 != 1).then_some(seed),
        process: (seed % 3 != 2).then_some(seed / 9),
    }
}

fn session(id: u64, seed: u64) -> SessionRecord {
    let answers = [
        Answer::Done,
        Answer::Dataset(DatasetId::new("data").unwrap()),
        Answer::Job(JobId(seed)),
        Answer::Client(ClientId(seed)),
        Answer::Splits {
            iteration: IterationId(seed),
            runs: runs(seed),
            end: seed % 2 == 1,
            current: seed / 2,
            more: seed % 3 == 1,
        },
        Answer::Refused(Error::aborted(text(seed))),
    ];
    let first = RequestNumber(seed % 1000);
    SessionRecord {
        id: SessionId(id),
        floor: first,
        answers: (first.0..).map(RequestNumber).zip(answers).collect(),
        is_read: seed % 2 == 1,
    }
}

fn runs(seed: u64) -> Vec<Run> {
    let run = |at: u64| Run {
        source: (seed % 3) as u32,
        repetition: seed % 5,
        first_index: 100 * at,
        count: 1 + (seed / 7) % 90,
        first_lease: 1000 * at,
        attempt: (seed % 4) as u32,
        seen: (seed + at) % 2 == 1,
        deaths: 0,
        skipped: false,
    };
    (0..seed % 6).map(run).collect()
}

fn clients(seed: u64) -> BTreeSet<ClientId> {
    (0..seed % 5).map(|client| ClientId(seed / 11 + client)).collect()
}

fn text(seed: u64) -> String {
    format!("a text with ümlaut and number {seed}")
}

/// Returns a few bytes, or more than one page of the file.
fn bytes(seed: u64) -> Vec<u8> {
    let count = if seed.is_multiple_of(7) { 6000 } else { seed % 100 };
    (0..count).map(|at| (seed.wrapping_add(at)) as u8).collect()
}
