//! Tests of coordinated reads: consumers join once, late tasks get one first round, and removals get one
//! verdict.

use std::time::Duration;

use millstream_link::{Claims, Role, Ticket, TicketKey};

use super::people::snapshot;
use super::rig::{READER, Rig, facts};
use crate::dispatcher::{ClientPush, DispatcherConfig, Reply, Request, TaskConcluded, TaskInfo, WorkerPush};
use crate::error::{Code, Error};
use crate::id::{ClientId, JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy, TargetWorkers};
use crate::planner::{Cardinality, DatasetFacts};
use crate::split::{LeaseRange, Seen};
use crate::whereabouts::Whereabouts;

fn of_cardinality(cardinality: Cardinality) -> DatasetFacts {
    DatasetFacts {
        cardinality,
        ..facts()
    }
}

/// Returns a job with `consumers` consumers on a new, infinite dataset.
pub(super) fn job(rig: &mut Rig, policy: Policy, consumers: u32) -> JobId {
    let dataset = rig.register(None, of_cardinality(Cardinality::Infinite)).unwrap();
    let parameters = JobParameters {
        num_consumers: Some(consumers),
        ..JobParameters::new(dataset, policy)
    };
    rig.job(None, parameters).unwrap()
}

fn open(job: JobId, consumer: Option<u32>) -> Request {
    Request::OpenIteration {
        job,
        repetition: 0,
        consumer,
        whereabouts: Whereabouts::default(),
    }
}

pub(super) fn try_consumer(rig: &mut Rig, job: JobId, consumer: u32) -> Result<ClientId, Error> {
    let reply = rig.ask(READER, Role::Read, open(job, Some(consumer)))?;
    let Reply::Client(id, _) = reply else {
        panic!("{reply:?}")
    };
    Ok(id)
}

pub(super) fn consumers(rig: &mut Rig, job: JobId, count: u32) -> Vec<ClientId> {
    (0..count)
        .map(|consumer| try_consumer(rig, job, consumer).unwrap())
        .collect()
}

pub(super) fn ready(rig: &mut Rig, client: ClientId, task: TaskId, earliest: u64) {
    let request = Request::RoundReady {
        client,
        task,
        earliest,
    };
    rig.ask(READER, Role::Read, request).unwrap();
}

pub(super) fn acknowledge(rig: &mut Rig, client: ClientId, task: TaskId, released: u64) {
    let seen = Seen {
        released,
        ..Seen::default()
    };
    rig.ask(READER, Role::Read, Request::Acknowledge { client, task, seen })
        .unwrap();
}

pub(super) fn hear(rig: &mut Rig, client: ClientId, task: TaskId) {
    rig.ask(READER, Role::Read, Request::VerdictHeard { client, task })
        .unwrap();
}

pub(super) fn leave(rig: &mut Rig, worker: SessionId) {
    rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
}

pub(super) fn scheduled(task: TaskId, start_round: u64) -> ClientPush {
    ClientPush::TaskScheduled { task, start_round }
}

pub(super) fn verdict(task: TaskId, groups: u64) -> ClientPush {
    ClientPush::TaskConcluded(TaskConcluded { task, groups })
}

fn lost(consumers: &[u32]) -> ClientPush {
    ClientPush::ConsumersLost {
        consumers: consumers.to_vec(),
    }
}

pub(super) fn added(rig: &Rig, client: ClientId) -> Vec<TaskInfo> {
    let mine = rig.client_pushes.iter().filter(|(to, _)| *to == client);
    mine.filter_map(|(_, push)| {
        if let ClientPush::TaskAdded(info) = push {
            Some(info.clone())
        } else {
            None
        }
    })
    .collect()
}

/// C9.1
#[test]
fn coordinated_jobs_take_datasets_of_any_length() {
    let mut rig = Rig::new();
    let endless = rig.register(None, of_cardinality(Cardinality::Infinite)).unwrap();
    let unknown = rig.register(None, of_cardinality(Cardinality::Unknown)).unwrap();
    let finite = rig.register(None, facts()).unwrap();
    let with = |dataset: &crate::id::DatasetId, count| JobParameters {
        num_consumers: Some(count),
        ..JobParameters::new(dataset.clone(), Policy::Off)
    };
    for (parameters, code, words) in [
        (with(&endless, 0), Code::InvalidArgument, "cannot be 0"),
        (with(&endless, 4097), Code::InvalidArgument, "1 to 4096"),
        (
            JobParameters {
                target_workers: TargetWorkers::Local,
                ..with(&endless, 2)
            },
            Code::InvalidArgument,
            "`local`",
        ),
    ] {
        let error = rig.job(None, parameters).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    for parameters in [with(&endless, 4096), with(&unknown, 1), with(&finite, 2)] {
        rig.job(None, parameters).unwrap();
    }
    rig.job(Some("in step"), with(&endless, 2)).unwrap();
    let error = rig.job(Some("in step"), with(&endless, 3)).unwrap_err();
    assert!(error.message.contains("num_consumers is 2, not 3"), "{error}");
}

/// C9.2
#[test]
fn an_iteration_is_opened_by_its_consumers() {
    let mut rig = Rig::new();
    let in_step = job(&mut rig, Policy::Off, 2);
    let plain = rig.any_job(Policy::Off);
    for (request, words) in [
        (open(in_step, None), "2 consumers: say which one"),
        (
            open(in_step, Some(2)),
            "2 consumers, numbered from 0: there is no consumer 2",
        ),
        (
            open(plain, Some(0)),
            "without num_consumers: it cannot be read as consumer 0",
        ),
    ] {
        let error = rig.ask(READER, Role::Read, request).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(words), "{error}");
    }
    assert!(rig.machine.status().iterations.is_empty());
    consumers(&mut rig, in_step, 2);
}

/// C9.2
#[test]
fn a_consumer_begins_once_even_across_restarts() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 3);
    rig.worker(1, "one:1");
    let first = try_consumer(&mut rig, job, 1).unwrap();
    let refused = |rig: &mut Rig| {
        let error = try_consumer(rig, job, 1).unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition);
        for words in ["consumer 1", "current round is past its first", "new repetition"] {
            assert!(error.message.contains(words), "{error}");
        }
    };
    refused(&mut rig);
    rig.ask(READER, Role::Read, Request::Release { client: first })
        .unwrap();
    refused(&mut rig);
    rig.restart();
    refused(&mut rig);
    try_consumer(&mut rig, job, 0).unwrap();
    let again = Request::OpenIteration {
        job,
        repetition: 1,
        consumer: Some(1),
        whereabouts: Whereabouts::default(),
    };
    rig.ask(READER, Role::Read, again).unwrap();
}

/// Tests a repeated request whose first answer was lost, while the iteration is planned (C9.2, C1.5).
#[test]
fn a_repeated_request_is_the_same_consumer() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    rig.plans_itself = false;
    let (mine, other) = (SessionId(11), SessionId(12));
    rig.send_numbered(mine, Role::Read, open(job, Some(0)), 1, 1);
    rig.send_numbered(other, Role::Read, open(job, Some(0)), 2, 2);
    let iteration = rig.planning.remove(0);
    let result = rig.plan.clone();
    rig.event(crate::dispatcher::Event::SplitsPlanned { iteration, result });
    let Some(Ok(Reply::Client(first, _))) = rig.reply(1) else {
        panic!("the first is let in")
    };
    let refused = rig.reply(2).unwrap().unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);
    rig.send_numbered(mine, Role::Read, open(job, Some(0)), 1, 1);
    assert!(matches!(rig.reply(1), Some(Ok(Reply::Client(id, _))) if id == first));
}

/// C9.2, C9.3
#[test]
fn an_iterations_first_tasks_begin_at_once() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let worker = rig.worker(1, "one:1");
    let client = try_consumer(&mut rig, job, 1).unwrap();
    let shown = snapshot(&mut rig, client).tasks;
    let task = rig.tasks(worker)[0];
    assert_eq!(
        (shown.len(), shown[0].task, shown[0].start_round),
        (1, task, Some(0))
    );
    let ticket = Ticket::from_bytes(&shown[0].ticket).unwrap();
    let claims = Claims {
        client: client.0,
        task: task.0,
        consumer: Some(1),
    };
    assert_eq!(TicketKey::from_bytes([1; 32]).verify(&ticket), Ok(claims));
    let described = rig.ask(worker, Role::Worker, Request::DescribeTask { task });
    assert!(matches!(described, Ok(Reply::Task(def)) if def.num_consumers == Some(2)));
}

/// C9.4
#[test]
fn a_late_task_begins_in_the_latest_round() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 3);
    rig.worker(1, "one:1");
    let clients = consumers(&mut rig, job, 2);
    let late = rig.worker(2, "two:2");
    let task = rig.tasks(late)[0];
    for client in &clients {
        let told: Vec<_> = added(&rig, *client).iter().map(|info| info.start_round).collect();
        assert_eq!(told, [None]);
    }
    ready(&mut rig, clients[0], task, 5);
    ready(&mut rig, clients[0], task, 50);
    ready(&mut rig, clients[1], task, 9);
    assert_eq!(
        rig.machine.status().iterations[0].tasks[1].phase,
        "waits for its first round"
    );
    let third = try_consumer(&mut rig, job, 2).unwrap();
    let shown = snapshot(&mut rig, third).tasks;
    let starts: Vec<_> = shown.iter().map(|info| info.start_round).collect();
    assert_eq!(starts, [Some(0), None], "it has not answered");
    rig.restart();
    assert_eq!(rig.told(&scheduled(task, 9)), 0);
    ready(&mut rig, third, task, 0);
    assert_eq!(rig.told(&scheduled(task, 9)), 3);
    ready(&mut rig, third, task, 70);
    assert_eq!(rig.told(&scheduled(task, 9)), 3, "it is settled");
    assert_eq!(snapshot(&mut rig, third).tasks[1].start_round, Some(9));
    rig.restart();
    assert_eq!(snapshot(&mut rig, third).tasks[1].start_round, Some(9));
}

/// C9.4
#[test]
fn late_tasks_are_settled_each_by_itself() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let clients = consumers(&mut rig, job, 2);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    let tasks = workers.map(|worker| rig.tasks(worker)[0]);
    ready(&mut rig, clients[0], tasks[1], 3);
    ready(&mut rig, clients[0], tasks[0], 3);
    ready(&mut rig, clients[1], tasks[1], 2);
    assert_eq!(rig.told(&scheduled(tasks[1], 3)), 2);
    assert_eq!(rig.told(&scheduled(tasks[0], 3)), 0);
    ready(&mut rig, clients[1], tasks[0], 3);
    assert_eq!(rig.told(&scheduled(tasks[0], 3)), 2);
}

/// C9.4
#[test]
fn only_the_iterations_consumers_decide_its_rounds() {
    let mut rig = Rig::new();
    let (job, other) = (job(&mut rig, Policy::Off, 1), job(&mut rig, Policy::Off, 1));
    let plain = rig.any_job(Policy::Off);
    let client = try_consumer(&mut rig, job, 0).unwrap();
    let stranger = try_consumer(&mut rig, other, 0).unwrap();
    let reader = rig.client(plain);
    let worker = rig.worker(1, "one:1");
    let tasks = rig.tasks(worker);
    let ask = |rig: &mut Rig, client, task| {
        let request = Request::RoundReady {
            client,
            task,
            earliest: 0,
        };
        rig.ask(READER, Role::Read, request)
    };
    for (client, task) in [(stranger, tasks[0]), (reader, tasks[2])] {
        assert_eq!(
            ask(&mut rig, client, task).unwrap_err().code,
            Code::InvalidArgument
        );
    }
    ask(&mut rig, client, TaskId(1)).expect("a task that is gone is no mistake");
    ask(&mut rig, client, tasks[0]).unwrap();
    assert_eq!(rig.told(&scheduled(tasks[0], 0)), 1);
}

/// C9.5
#[test]
fn consumers_agree_on_a_removed_tasks_groups() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 3);
    let dies = rig.worker(1, "dies:1");
    let lives = rig.worker(2, "lives:2");
    let clients = consumers(&mut rig, job, 3);
    let task = rig.tasks(dies)[0];
    leave(&mut rig, dies);
    acknowledge(&mut rig, clients[0], task, 4);
    acknowledge(&mut rig, clients[2], task, 3);
    hear(&mut rig, clients[0], task);
    // The time exceeds the acknowledge timeout.
    rig.pass(60, &[lives], &clients);
    assert_eq!(rig.told(&verdict(task, 4)), 0, "one has not answered");
    rig.restart();
    acknowledge(&mut rig, clients[1], task, 2);
    assert_eq!(rig.told(&verdict(task, 4)), 3);
    hear(&mut rig, clients[1], task);
    assert!(snapshot(&mut rig, clients[1]).concluded.is_empty());
    rig.restart();
    for client in [clients[0], clients[2]] {
        let shown = snapshot(&mut rig, client);
        assert_eq!(shown.concluded, [TaskConcluded { task, groups: 4 }]);
        assert!(shown.removed.is_empty());
        hear(&mut rig, client, task);
    }
    assert_eq!(rig.machine.status().iterations[0].removals, 0);
    assert_eq!(rig.told(&verdict(task, 4)), 3, "pushed once");
}

/// C9.5, C4.3
#[test]
fn a_missing_consumer_delays_no_verdict() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 3);
    let dies = rig.worker(1, "dies:1");
    let lives = rig.worker(2, "lives:2");
    let clients = consumers(&mut rig, job, 3);
    let task = rig.tasks(dies)[0];
    leave(&mut rig, dies);
    acknowledge(&mut rig, clients[0], task, 7);
    rig.ask(READER, Role::Read, Request::Release { client: clients[1] })
        .unwrap();
    // The third consumer lapses.
    rig.pass(290, &[lives], &clients[..1]);
    assert_eq!(rig.told(&verdict(task, 7)), 0);
    rig.pass(12, &[lives], &clients[..1]);
    assert_eq!(rig.told(&verdict(task, 7)), 1);
    rig.ask(READER, Role::Read, Request::Release { client: clients[0] })
        .unwrap();
    assert_eq!(rig.machine.status().iterations[0].removals, 0);
}

/// C9.5, C6.4
#[test]
fn a_removed_tasks_splits_are_sorted() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 2);
    let dies = rig.worker(1, "dies:1");
    let clients = consumers(&mut rig, job, 2);
    let task = rig.tasks(dies)[0];
    let held: u64 = (0..2).map(|_| rig.lease(dies, task).unwrap().0).sum();
    assert_eq!(held, 3);
    leave(&mut rig, dies);
    let seen = Seen {
        partial: vec![LeaseRange::one(0)],
        released: 1,
        ..Seen::default()
    };
    let request = Request::Acknowledge {
        client: clients[0],
        task,
        seen,
    };
    rig.ask(READER, Role::Read, request).unwrap();
    acknowledge(&mut rig, clients[1], task, 0);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.splits_lost, iteration.sources[0].remaining), (1, 99));
    assert_eq!(rig.told(&verdict(task, 1)), 2);
}

/// C9.6
#[test]
fn a_late_task_without_worker_joins_no_round() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 2);
    let clients = consumers(&mut rig, job, 2);
    let late = rig.worker(1, "late:1");
    let task = rig.tasks(late)[0];
    rig.lease(late, task).unwrap();
    ready(&mut rig, clients[0], task, 0);
    leave(&mut rig, late);
    assert_eq!(rig.told(&ClientPush::TaskEnded { task }), 2);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.removals, iteration.splits_lost), (0, 0));
    assert_eq!(iteration.sources[0].remaining, 100);
    ready(&mut rig, clients[1], task, 0);
    assert_eq!(rig.told(&scheduled(task, 0)), 0);
    assert!(snapshot(&mut rig, clients[1]).tasks.is_empty());
}

/// C9.8
#[test]
fn absent_consumers_are_named_to_the_others() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 4);
    let worker = rig.worker(1, "one:1");
    let clients: Vec<_> = [0, 2]
        .map(|consumer| try_consumer(&mut rig, job, consumer).unwrap())
        .to_vec();
    assert_eq!(rig.machine.status().iterations[0].missing_consumers, [1, 3]);
    rig.pass(59, &[worker], &clients);
    assert_eq!(rig.told(&lost(&[1, 3])), 0);
    rig.pass(2, &[worker], &clients);
    assert_eq!(rig.told(&lost(&[1, 3])), 2);
    rig.pass(120, &[worker], &clients);
    assert_eq!(rig.told(&lost(&[1, 3])), 2, "told once");
    rig.ask(READER, Role::Read, Request::Attach { client: clients[0] })
        .unwrap();
    assert_eq!(rig.told(&lost(&[1, 3])), 3, "who comes back is told as well");
}

/// C9.8
#[test]
fn silent_consumers_are_named_until_they_return() {
    let config = DispatcherConfig {
        consumer_timeout: Duration::from_secs(10),
        ..DispatcherConfig::default()
    };
    for silently in [true, false] {
        let mut rig = Rig::with(config.clone());
        let job = job(&mut rig, Policy::Off, 3);
        let worker = rig.worker(1, "one:1");
        let clients = consumers(&mut rig, job, 3);
        rig.pass(20, &[worker], &clients);
        // The stall ends before the consumers count as missing.
        rig.pass(11, &[worker], &clients[..2]);
        rig.pass(20, &[worker], &clients);
        assert_eq!(rig.told(&lost(&[2])), 0);
        if !silently {
            rig.ask(READER, Role::Read, Request::Release { client: clients[2] })
                .unwrap();
        }
        rig.pass(9, &[worker], &clients[..2]);
        assert_eq!(rig.told(&lost(&[2])), 0);
        rig.pass(8, &[worker], &clients[..2]);
        assert!(rig.told(&lost(&[2])) >= 2);
    }
}

/// C9.8: a trainer may take its time between two epochs, for example for an evaluation.
#[test]
fn a_consumer_between_epochs_is_not_missing() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let worker = rig.worker(1, "one:1");
    let mut join = |consumer: u32, repetition: u64| {
        let session = SessionId(20 + u64::from(consumer));
        let request = Request::OpenIteration {
            job,
            repetition,
            consumer: Some(consumer),
            whereabouts: Whereabouts::default(),
        };
        let reply = rig.ask(session, Role::Read, request).unwrap();
        let Reply::Client(id, _) = reply else {
            panic!("{reply:?}")
        };
        (session, id)
    };
    let (first, second) = (join(0, 0), join(1, 0));
    let next = join(0, 1);
    for (session, client) in [first, second] {
        rig.ask(session, Role::Read, Request::Release { client }).unwrap();
    }
    let pass = |rig: &mut Rig, seconds: u64, sessions: &[(SessionId, Vec<ClientId>)]| {
        for _ in 0..2 * seconds {
            rig.now += Duration::from_millis(500);
            let workers = [(worker, true, vec![])].into_iter();
            let readers = sessions.iter().cloned();
            for (session, is_worker, clients) in
                workers.chain(readers.map(|(session, clients)| (session, false, clients)))
            {
                rig.event(crate::dispatcher::Event::Heartbeat {
                    session,
                    worker: is_worker,
                    clients,
                });
            }
            rig.event(crate::dispatcher::Event::Woken);
        }
    };
    let (reads, waits) = ((next.0, vec![next.1]), (second.0, vec![]));
    pass(&mut rig, 300, &[reads.clone(), waits]);
    assert_eq!(rig.told(&lost(&[1])), 0, "its process is heard");
    pass(&mut rig, 80, &[reads]);
    assert_eq!(rig.told(&lost(&[1])), 1);
}

/// Tests that a dispatcher that was suspended counts no consumer as missing (C9.8, C7.6).
#[test]
fn the_dispatchers_own_silence_misses_no_consumer() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let clients = consumers(&mut rig, job, 1);
    rig.pass(1, &[], &clients);
    rig.now += Duration::from_secs(400);
    rig.pass(50, &[], &clients);
    assert_eq!(rig.told(&lost(&[1])), 0);
    rig.pass(12, &[], &clients);
    assert_eq!(rig.told(&lost(&[1])), 1);
}

/// Tests that an unread coordinated read is given up, although other jobs under DYNAMIC are kept for a
/// later reader (C3.6, C9.2).
#[test]
fn an_unread_coordinated_read_is_given_up() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 1);
    let worker = rig.worker(1, "one:1");
    let client = try_consumer(&mut rig, job, 0).unwrap();
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
    rig.pass(312, &[worker], &[]);
    let task = rig.tasks(worker)[0];
    let stopped = |(_, push): &&(SessionId, WorkerPush)| matches!(push, WorkerPush::Stop { task: found, .. } if *found == task);
    assert_eq!(rig.worker_pushes.iter().filter(stopped).count(), 1);
    assert!(rig.machine.status().iterations.is_empty());
}
