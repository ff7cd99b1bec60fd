//! Tests of static sharding: places in the fixed list, and an iteration that ends when every share was
//! read.

use std::collections::BTreeMap;

use millstream_link::Role;
use proptest::prelude::*;

use super::rig::{READER, Rig, facts};
use crate::dispatcher::{
    ClientPush, Dispatcher, DispatcherConfig, Phase, Record, Reply, Request, TaskDef, WorkerAddresses,
};
use crate::error::{Code, Error};
use crate::id::{BootId, ClientId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::split::Seen;

const STATIC: [Policy; 4] = [Policy::File, Policy::Data, Policy::FileOrData, Policy::Hint];

fn listing(addresses: &[&str]) -> DispatcherConfig {
    DispatcherConfig {
        worker_addresses: WorkerAddresses::new(addresses.iter().copied()).unwrap(),
        ..DispatcherConfig::default()
    }
}

fn rig(addresses: &[&str]) -> Rig {
    Rig::with(listing(addresses))
}

fn described(rig: &mut Rig, worker: SessionId, task: TaskId) -> TaskDef {
    let reply = rig.ask(worker, Role::Worker, Request::DescribeTask { task });
    let Ok(Reply::Task(def)) = reply else {
        panic!("{reply:?}")
    };
    *def
}

/// Returns the number of a worker.
fn index_of(rig: &mut Rig, worker: SessionId) -> u64 {
    let job = rig.any_job(Policy::Off);
    rig.client(job);
    let task = *rig.tasks(worker).last().unwrap();
    described(rig, worker, task).worker_index
}

fn refusal(result: Result<Reply, Error>) -> Error {
    result.expect_err("refused")
}

fn acknowledge(rig: &mut Rig, client: ClientId, task: TaskId) {
    let seen = Seen::default();
    rig.ask(READER, Role::Read, Request::Acknowledge { client, task, seen })
        .unwrap();
}

fn phase(rig: &Rig) -> Phase {
    rig.machine.status().iterations[0].phase
}

/// C8.1
#[test]
fn a_workers_number_is_its_place_listed() {
    let mut rig = rig(&["a:1", "b:2", "[::1]:%port%", "http://d:e"]);
    let last = rig.worker(1, "http://d:e");
    let second = rig.worker(2, "b:2");
    let third = rig.worker(3, "[::1]:77");
    let first = rig.worker(4, "a:1");
    let found: Vec<u64> = [first, second, third, last]
        .map(|worker| index_of(&mut rig, worker))
        .into();
    assert_eq!(found, [0, 1, 2, 3]);
}

/// C8.1
#[test]
fn workers_of_one_host_keep_their_numbers() {
    let mut rig = rig(&["host:%port%", "host:%port_worker%", "host"]);
    let workers: Vec<SessionId> = (1..4)
        .map(|number| rig.worker(number, &format!("host:{number}")))
        .collect();
    for (place, worker) in (0..).zip(&workers) {
        assert_eq!(index_of(&mut rig, *worker), place);
    }
    let again = rig.worker(12, "host:2");
    assert_eq!(index_of(&mut rig, again), 1);
    let error = refusal(rig.register_worker(4, "host:4"));
    assert_eq!(error.code, Code::FailedPrecondition);
    assert!(error.message.contains("taken by living workers"), "{error}");
}

/// C8.1
#[test]
fn a_place_moves_only_from_dead_workers() {
    let mut rig = rig(&["host:%port%", "other:1"]);
    let first = rig.worker(1, "host:1");
    assert_eq!(
        refusal(rig.register_worker(2, "host:2")).code,
        Code::FailedPrecondition
    );
    rig.ask(first, Role::Worker, Request::LeaveWorker).unwrap();
    let second = rig.worker(3, "host:2");
    assert_eq!(index_of(&mut rig, second), 0);
    let error = refusal(rig.register_worker(4, "host:1"));
    assert_eq!(error.code, Code::FailedPrecondition, "its place is another's now");
}

/// C8.1
#[test]
fn an_unlisted_worker_is_refused_with_the_list() {
    let mut rig = rig(&["a:1", "b:worker", "c:%port%"]);
    for address in ["a:2", "b:1", "c", "x:1"] {
        let error = refusal(rig.register_worker(1, address));
        assert_eq!(error.code, Code::FailedPrecondition, "{address}");
        assert!(
            error.message.contains(&format!("worker {address} is not in"))
                && error.message.contains("a:1, b:worker"),
            "{error}"
        );
    }
    assert_eq!(rig.machine.status().counts.workers, 0);
}

/// C8.1
#[test]
fn another_list_renumbers_workers_after_a_restart() {
    let mut before = Rig::with(listing(&["a:1", "b:1"]));
    before.worker(1, "a:1");
    before.worker(2, "b:1");
    let tables = &before.machine.state.tables;
    let workers = tables.workers.values().cloned().map(Record::Worker);
    let records: Vec<Record> = workers.chain([Record::Meta(tables.meta().clone())]).collect();
    let mut after = Rig::with(listing(&["b:1", "a:1"]));
    after.machine = Dispatcher::load(listing(&["b:1", "a:1"]), records, BootId(1), after.now);
    let error = refusal(after.register_worker(1, "a:1"));
    assert_eq!(error.code, Code::Aborted, "it shall register again");
    let a = after.worker(11, "a:1");
    let b = after.worker(12, "b:1");
    assert_eq!((index_of(&mut after, a), index_of(&mut after, b)), (1, 0));
}

/// C8.2
#[test]
fn without_a_list_no_dataset_is_divided() {
    let mut rig = Rig::new();
    let dataset = rig.register(None, facts()).unwrap();
    for policy in STATIC {
        let error = rig
            .job(None, JobParameters::new(dataset.clone(), policy))
            .unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert!(error.message.contains(&format!("`{policy}`")), "{error}");
    }
}

/// C8.2
#[test]
fn an_unfit_dataset_is_refused_with_the_reason() {
    let mut numbers = facts();
    numbers.not_by_files = Some("its source \"range\" has none".to_owned());
    let mut hinted = facts();
    hinted.has_shard_hint = true;
    let mut alone = rig(&["a:1"]);
    alone.register(Some("numbers"), numbers.clone()).unwrap();
    let mut pair = rig(&["a:1", "b:1"]);
    let numbers = pair.register(Some("numbers"), numbers).unwrap();
    let hinted = pair.register(Some("hinted"), hinted).unwrap();
    let parameters = JobParameters::new(numbers.clone(), Policy::File);
    let error = pair.job(None, parameters.clone()).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert!(error.message.contains("\"range\""), "{error}");
    alone.job(None, parameters).expect("one worker reads everything");
    for policy in [Policy::Data, Policy::FileOrData, Policy::Hint] {
        pair.job(None, JobParameters::new(numbers.clone(), policy))
            .unwrap();
    }
    for policy in [
        Policy::Off,
        Policy::Dynamic,
        Policy::File,
        Policy::Data,
        Policy::FileOrData,
    ] {
        let error = pair
            .job(None, JobParameters::new(hinted.clone(), policy))
            .unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition, "{policy}");
    }
    pair.job(None, JobParameters::new(hinted, Policy::Hint)).unwrap();
}

/// C8.3, C8.4
#[test]
fn an_iteration_waits_for_every_share() {
    for policy in STATIC {
        let mut rig = rig(&["a:1", "b:1", "c:%port%"]);
        let job = rig.any_job(policy);
        let second = rig.worker(2, "b:1");
        let client = rig.client(job);
        let task = rig.tasks(second)[0];
        let def = described(&mut rig, second, task);
        assert_eq!((def.worker_index, def.worker_count), (1, 3));
        rig.finish(second, task);
        rig.pass(60, &[second], &[client]);
        assert!(rig.machine.status().iterations[0].waiting_for_workers);
        assert!(
            !rig.client_pushes
                .iter()
                .any(|(_, push)| matches!(push, ClientPush::WorkersLost { .. })),
            "waiting for the first worker is no loss"
        );
        let (first, third) = (rig.worker(1, "a:1"), rig.worker(3, "c:9"));
        for worker in [first, third] {
            assert_eq!(phase(&rig), Phase::Running);
            let task = rig.tasks(worker)[0];
            rig.finish(worker, task);
        }
        assert_eq!(phase(&rig), Phase::Finished);
        assert_eq!(rig.tasks(second), [task], "each share once");
    }
}

/// C8.3
#[test]
fn a_returning_worker_reads_its_unread_share_again() {
    let mut rig = rig(&["a:1", "b:%port%"]);
    let job = rig.any_job(Policy::Data);
    let (first, second) = (rig.worker(1, "a:1"), rig.worker(2, "b:1"));
    let client = rig.client(job);
    let (read, unread) = (rig.tasks(first)[0], rig.tasks(second)[0]);
    rig.finish(first, read);
    let again = rig.worker(11, "a:1");
    assert_eq!(rig.tasks(again), [], "its share was read");
    rig.ask(second, Role::Worker, Request::LeaveWorker).unwrap();
    acknowledge(&mut rig, client, unread);
    assert_eq!(phase(&rig), Phase::Running);
    let other = rig.worker(12, "b:2");
    let task = rig.tasks(other)[0];
    assert_eq!(described(&mut rig, other, task).worker_index, 1);
    rig.finish(other, task);
    assert_eq!(phase(&rig), Phase::Finished);
}

/// C8.4, C7.5
#[test]
fn clients_learn_of_missing_shares() {
    let mut rig = rig(&["a:1", "b:1", "c:1"]);
    let job = rig.any_job(Policy::FileOrData);
    let (first, second) = (rig.worker(1, "a:1"), rig.worker(2, "b:1"));
    let client = rig.client(job);
    let task = rig.tasks(second)[0];
    rig.ask(second, Role::Worker, Request::LeaveWorker).unwrap();
    acknowledge(&mut rig, client, task);
    let lost = ClientPush::WorkersLost {
        workers: vec!["b:1".to_owned()],
    };
    rig.pass(5, &[first], &[client]);
    assert_eq!(rig.told(&lost), 0, "it may come back");
    rig.pass(10, &[first], &[client]);
    assert_eq!(rig.told(&lost), 1);
    let back = rig.worker(12, "b:1");
    rig.pass(30, &[first, back], &[client]);
    assert_eq!(rig.told(&lost), 1, "the third was never there");
}

/// An event of the worker at one port of the only host.
#[derive(Clone, Copy, Debug)]
enum Move {
    Comes(u64),
    Goes(u64),
    Finishes(u64),
    /// A restart of the dispatcher, which is not an event of a worker.
    Restarts,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let ports = 0..6u64;
    let one = prop_oneof![
        ports.clone().prop_map(Move::Comes),
        ports.clone().prop_map(Move::Goes),
        ports.prop_map(Move::Finishes),
        Just(Move::Restarts),
    ];
    prop::collection::vec(one, 0..60)
}

/// An iteration over workers that start, leave, and read each share to its end.
struct Reading {
    rig: Rig,
    client: ClientId,
    living: BTreeMap<u64, SessionId>,
    sessions: u64,
    /// The shares, with the number of times that each was read to its end.
    read: BTreeMap<u64, u32>,
}

impl Reading {
    fn new(workers: usize) -> Reading {
        let mut rig = rig(&vec!["host:%port%"; workers]);
        let job = rig.any_job(Policy::Data);
        let client = rig.client(job);
        Reading {
            rig,
            client,
            living: BTreeMap::new(),
            sessions: 100,
            read: BTreeMap::new(),
        }
    }

    fn go_on(&mut self, step: Move) {
        match step {
            Move::Comes(port) => {
                self.sessions += 1;
                if self
                    .rig
                    .register_worker(self.sessions, &format!("host:{port}"))
                    .is_ok()
                {
                    // The earlier process at this port is gone.
                    let before = self.living.insert(port, SessionId(self.sessions));
                    self.give_up(before);
                }
            }
            Move::Restarts => self.rig.restart(),
            Move::Goes(port) => {
                if let Some(worker) = self.living.remove(&port) {
                    self.rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
                    self.give_up(Some(worker));
                }
            }
            Move::Finishes(port) => {
                if let Some(worker) = self.living.get(&port).copied() {
                    self.finish(worker);
                }
            }
        }
    }

    fn give_up(&mut self, worker: Option<SessionId>) {
        for task in worker.map(|worker| self.rig.tasks(worker)).unwrap_or_default() {
            acknowledge(&mut self.rig, self.client, task);
        }
    }

    fn finish(&mut self, worker: SessionId) {
        for task in self.rig.tasks(worker) {
            let reply = self.rig.ask(worker, Role::Worker, Request::DescribeTask { task });
            // A settled task may be described again until the iteration is over.
            if let Ok(Reply::Task(def)) = reply
                && self.is_open(task)
            {
                *self.read.entry(def.worker_index).or_default() += 1;
                self.rig.finish(worker, task);
            }
        }
    }

    fn is_open(&self, task: TaskId) -> bool {
        let status = self.rig.machine.status();
        let mut tasks = status.iterations[0].tasks.iter();
        tasks.any(|row| row.id == task && row.phase == "running")
    }
}

proptest! {
    /// C8.3, C8.4
    #[test]
    fn each_share_is_read_to_its_end_once(workers in 1usize..5, moves in moves()) {
        let mut reading = Reading::new(workers);
        for step in moves {
            reading.go_on(step);
            let is_over = phase(&reading.rig) == Phase::Finished;
            prop_assert_eq!(is_over, reading.read.len() == workers);
        }
        for port in 0..6 {
            reading.go_on(Move::Comes(port));
            reading.go_on(Move::Finishes(port));
        }
        prop_assert_eq!(phase(&reading.rig), Phase::Finished);
        prop_assert_eq!(reading.read, (0..workers as u64).map(|share| (share, 1)).collect::<BTreeMap<_, _>>());
    }
}
