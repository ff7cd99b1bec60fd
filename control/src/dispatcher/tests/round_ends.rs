//! Tests of the end of a coordinated read: finite tasks, failed tasks, and the splits that lost tasks leave.

use millstream_link::Role;

use super::people::snapshot;
use super::rig::{READER, Rig, failed};
use super::rounds::{
    acknowledge, added, consumers, hear, job, leave, ready, scheduled, try_consumer, verdict,
};
use crate::dispatcher::{ClientPush, Phase, Request};
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;

fn drained(rig: &mut Rig, client: ClientId, task: TaskId) {
    rig.ask(READER, Role::Read, Request::TaskDrained { client, task })
        .unwrap();
}

/// Lets a worker report that a task produced everything. No consumer needs to have received it.
fn finish(rig: &mut Rig, worker: SessionId, task: TaskId) {
    let request = Request::FinishTask {
        task,
        delivered: true,
        exhausted: true,
        cut_short: false,
    };
    rig.ask(worker, Role::Worker, request).unwrap();
}

fn fail(rig: &mut Rig, worker: SessionId, task: TaskId) {
    rig.ask(worker, Role::Worker, failed(task, "torn")).unwrap();
}

fn phase(rig: &Rig) -> Phase {
    rig.machine.status().iterations[0].phase
}

/// C9.7: the read ends once every consumer has joined and has received the end from the worker, also if
/// nothing remains to be read.
#[test]
fn a_finite_read_ends_for_all_consumers() {
    for policy in [Policy::Off, Policy::Dynamic] {
        let mut rig = Rig::new();
        let job = job(&mut rig, policy, 2);
        let worker = rig.worker(1, "one:1");
        let first = try_consumer(&mut rig, job, 0).unwrap();
        let task = rig.tasks(worker)[0];
        finish(&mut rig, worker, task);
        drained(&mut rig, first, task);
        rig.restart();
        assert_eq!(phase(&rig), Phase::Running, "the other consumer has not joined");
        let second = try_consumer(&mut rig, job, 1).unwrap();
        assert_eq!(snapshot(&mut rig, second).tasks.len(), 1);
        assert_eq!(
            phase(&rig),
            Phase::Running,
            "the other consumer must receive the end"
        );
        drained(&mut rig, second, task);
        assert_eq!(phase(&rig), Phase::Finished);
        assert!(snapshot(&mut rig, second).finished);
    }
}

/// C9.5: when the worker is gone, a consumer that has the end of the task states its groups. The other
/// consumers hand over the same groups.
#[test]
fn an_ended_tasks_groups_are_the_verdict() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let worker = rig.worker(1, "one:1");
    let clients = consumers(&mut rig, job, 2);
    let task = rig.tasks(worker)[0];
    finish(&mut rig, worker, task);
    drained(&mut rig, clients[0], task);
    leave(&mut rig, worker);
    acknowledge(&mut rig, clients[1], task, 6);
    assert_eq!(
        rig.told(&verdict(task, 6)),
        0,
        "the other consumer may know more groups"
    );
    acknowledge(&mut rig, clients[0], task, 7);
    assert_eq!(rig.told(&verdict(task, 7)), 2);
    clients.iter().for_each(|client| hear(&mut rig, *client, task));
    assert_eq!(phase(&rig), Phase::Finished, "nothing remains to be read");
}

/// C9.5: all groups of a task that a consumer has the end of are handed over, so that no split is lost with
/// its worker.
#[test]
fn an_ended_tasks_splits_are_not_lost() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 2);
    let worker = rig.worker(1, "one:1");
    let clients = consumers(&mut rig, job, 2);
    let task = rig.tasks(worker)[0];
    while rig.lease(worker, task).unwrap().0 > 0 {}
    finish(&mut rig, worker, task);
    drained(&mut rig, clients[0], task);
    rig.restart();
    leave(&mut rig, worker);
    rig.restart();
    for (client, groups) in clients.iter().zip([7, 6]) {
        acknowledge(&mut rig, *client, task, groups);
    }
    clients.iter().for_each(|client| hear(&mut rig, *client, task));
    let iteration = &rig.machine.status().iterations[0];
    let counts = (iteration.phase, iteration.splits_done, iteration.splits_lost);
    assert_eq!(counts, (Phase::Finished, 100, 0));
}

/// C10.2: a draining worker delivers the splits that it has begun, to all consumers.
#[test]
fn a_draining_worker_ends_its_tasks_in_step() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 2);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    let clients = consumers(&mut rig, job, 2);
    let [drains, stays] = workers.map(|worker| rig.tasks(worker)[0]);
    rig.lease(workers[0], drains).unwrap();
    rig.ask(workers[0], Role::Worker, Request::DrainWorker).unwrap();
    assert_eq!(
        rig.machine.status().iterations[0].removals,
        0,
        "the task winds down"
    );
    let cut_short = Request::FinishTask {
        task: drains,
        delivered: true,
        exhausted: false,
        cut_short: true,
    };
    rig.ask(workers[0], Role::Worker, cut_short).unwrap();
    clients
        .iter()
        .for_each(|client| drained(&mut rig, *client, drains));
    leave(&mut rig, workers[0]);
    while rig.lease(workers[1], stays).unwrap().0 > 0 {}
    finish(&mut rig, workers[1], stays);
    clients
        .iter()
        .for_each(|client| drained(&mut rig, *client, stays));
    let iteration = &rig.machine.status().iterations[0];
    let counts = (iteration.phase, iteration.splits_done, iteration.splits_lost);
    assert_eq!(counts, (Phase::Finished, 100, 0));
}

/// C6.5, C9.4: the splits of a lost task are read by late tasks after the other tasks have ended.
#[test]
fn late_tasks_read_the_splits_left_over() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Dynamic, 2);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    let clients = consumers(&mut rig, job, 2);
    let [stays, goes] = workers.map(|worker| rig.tasks(worker)[0]);
    rig.lease(workers[1], goes).unwrap();
    finish(&mut rig, workers[0], stays);
    leave(&mut rig, workers[1]);
    clients
        .iter()
        .for_each(|client| acknowledge(&mut rig, *client, goes, 0));
    clients.iter().for_each(|client| hear(&mut rig, *client, goes));
    let late = added(&rig, clients[0]).pop().expect("a late task").task;
    assert!(late != stays && late != goes);
    for (client, earliest) in clients.iter().zip([3, 4]) {
        let starts: Vec<_> = added(&rig, *client).iter().map(|info| info.start_round).collect();
        assert_eq!(starts.last(), Some(&None));
        drained(&mut rig, *client, stays);
        ready(&mut rig, *client, late, earliest);
    }
    assert_eq!(rig.told(&scheduled(late, 4)), 2);
    assert_eq!(phase(&rig), Phase::Running);
}

/// C9.7
#[test]
fn a_failed_task_fails_for_all_consumers() {
    let mut rig = Rig::new();
    let job = job(&mut rig, Policy::Off, 2);
    let worker = rig.worker(1, "one:1");
    let first = try_consumer(&mut rig, job, 0).unwrap();
    let task = rig.tasks(worker)[0];
    fail(&mut rig, worker, task);
    let failures = |rig: &Rig| {
        let of_first = rig.client_pushes.iter().filter(|(to, _)| *to == first);
        of_first
            .filter(|(_, push)| matches!(push, ClientPush::TaskFailed { message, .. } if message == "torn"))
            .count()
    };
    assert_eq!(failures(&rig), 1);
    drained(&mut rig, first, task);
    assert_eq!(
        phase(&rig),
        Phase::Running,
        "the other consumer must receive it from the worker too"
    );
    let second = try_consumer(&mut rig, job, 1).unwrap();
    let shown = snapshot(&mut rig, second);
    assert_eq!((shown.failed.len(), shown.tasks.len()), (1, 1));
    assert_eq!(phase(&rig), Phase::Running);
    drained(&mut rig, second, task);
    assert_eq!(phase(&rig), Phase::Finished);
}

/// C9.7, C6.6
#[test]
fn an_unheard_failure_keeps_no_iteration_alive() {
    for is_worker_gone in [false, true] {
        let mut rig = Rig::new();
        let job = job(&mut rig, Policy::Off, 2);
        let worker = rig.worker(1, "one:1");
        let clients = consumers(&mut rig, job, 2);
        let task = rig.tasks(worker)[0];
        fail(&mut rig, worker, task);
        assert_eq!(phase(&rig), Phase::Running);
        if is_worker_gone {
            leave(&mut rig, worker);
            assert_eq!(rig.told(&ClientPush::TaskEnded { task }), 2);
        } else {
            for client in clients {
                rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
            }
        }
        assert_eq!(phase(&rig), Phase::Finished);
    }
}
