//! Tests of the graceful shutdown of workers.

use millstream_link::Role;

use super::rig::{READER, Rig};
use crate::dispatcher::{ClientPush, IterationStatus, Phase, Request, StopReason, WorkerPush};
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;
use crate::split::{LeaseRange, Seen};

/// Tests a draining worker, also across a restart of the dispatcher and a reconnection of the worker
/// (C10.1).
#[test]
fn a_draining_worker_gets_no_more_tasks() {
    let mut rig = Rig::new();
    let leaving = rig.worker(1, "one:1");
    drain(&mut rig, leaving);
    rig.restart();
    rig.register_worker(1, "one:1").unwrap();
    let job = rig.any_job(Policy::Dynamic);
    rig.client(job);
    assert_eq!(rig.tasks(leaving), []);
    assert!(iteration(&rig).waiting_for_workers || rig.machine.status().workers[0].draining);
    let stays = rig.worker(2, "two:2");
    assert_eq!(rig.tasks(stays).len(), 1);
    let error = rig.ask(READER, Role::Read, Request::DrainWorker).unwrap_err();
    assert!(error.message.contains("may not drain a worker"), "{error}");
}

/// C10.2
#[test]
fn others_continue_where_a_draining_worker_stopped() {
    let mut rig = Rig::new();
    let (client, workers, tasks) = two_workers(&mut rig);
    let [leaving, stays] = workers;
    // The draining worker has leases 0, 1 and 2, and has begun the first.
    rig.lease(leaving, tasks[0]).unwrap();
    rig.lease(leaving, tasks[0]).unwrap();
    drain(&mut rig, leaving);
    give_back(&mut rig, leaving, tasks[0], LeaseRange { first: 1, count: 2 });
    cut_short(&mut rig, leaving, tasks[0]);
    drained(&mut rig, client, tasks[0]);
    assert_eq!(stops(&rig, leaving), [(tasks[0], StopReason::Settled)]);
    assert_eq!(rig.told(&ClientPush::TaskEnded { task: tasks[0] }), 0);
    // The other worker has read all other splits to the end, and gets another task for the returned splits.
    while let Ok((_, false)) = rig.lease(stays, tasks[1]) {}
    rig.finish(stays, tasks[1]);
    let status = iteration(&rig);
    let counts = (status.phase, status.splits_done, status.splits_lost);
    assert_eq!(counts, (Phase::Finished, 100, 0));
    assert_eq!(
        rig.tasks(leaving).len(),
        1,
        "a draining worker gets no further task"
    );
}

/// Tests that a task that was cut short does not show that its sources are exhausted (C10.2, C3.4).
#[test]
fn an_iteration_survives_its_only_workers_drain() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let leaving = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(leaving)[0];
    rig.lease(leaving, task).unwrap();
    drain(&mut rig, leaving);
    cut_short(&mut rig, leaving, task);
    drained(&mut rig, client, task);
    rig.ask(leaving, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(iteration(&rig).phase, Phase::Running);
    rig.restart();
    // A reader that waits for a worker is told which worker is missing (C7.5).
    rig.pass(11, &[], &[client]);
    let workers = vec!["one:1".to_owned()];
    assert_eq!(rig.told(&ClientPush::WorkersLost { workers }), 1);
    let next = rig.worker(2, "two:2");
    let task = rig.tasks(next)[0];
    let mut dealt = 0;
    while let Ok((count, false)) = rig.lease(next, task) {
        dealt += count;
    }
    assert_eq!(dealt, 99);
    rig.finish(next, task);
    let status = iteration(&rig);
    assert_eq!((status.phase, status.splits_done), (Phase::Finished, 100));
}

/// Tests that a further task that is cut short does not show that its free splits are unwanted (C10.2,
/// C6.5).
#[test]
fn a_second_truncated_task_loses_nothing() {
    let mut rig = Rig::new();
    let (client, workers, tasks) = two_workers(&mut rig);
    let [first, second] = workers;
    rig.lease(first, tasks[0]).unwrap();
    while let Ok((_, false)) = rig.lease(second, tasks[1]) {}
    rig.finish(second, tasks[1]);
    // The splits that the first worker returns are free, and both workers get a further task.
    give_back(&mut rig, first, tasks[0], LeaseRange { first: 0, count: 1 });
    rig.finish(first, tasks[0]);
    let further = rig.tasks(first)[1];
    drain(&mut rig, first);
    cut_short(&mut rig, first, further);
    drained(&mut rig, client, further);
    let status = iteration(&rig);
    assert_eq!((status.phase, status.splits_lost), (Phase::Running, 0));
    let last = rig.tasks(second)[1];
    assert_eq!(rig.lease(second, last).unwrap(), (1, false));
    rig.finish(second, last);
    let status = iteration(&rig);
    let counts = (status.phase, status.splits_done, status.splits_lost);
    assert_eq!(counts, (Phase::Finished, 100, 0));
}

/// C10.3
#[test]
fn tasks_without_successors_are_removed_at_once() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let leaving = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(leaving)[0];
    drain(&mut rig, leaving);
    assert_eq!(stops(&rig, leaving), [(task, StopReason::Draining)]);
    assert_eq!(iteration(&rig).removals, 1);
}

/// Tests that the elements of a finished task are still delivered (C10.3).
#[test]
fn a_finished_task_is_not_removed() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let leaving = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(leaving)[0];
    let request = Request::FinishTask {
        task,
        delivered: false,
        exhausted: true,
        cut_short: false,
    };
    rig.ask(leaving, Role::Worker, request).unwrap();
    drain(&mut rig, leaving);
    assert_eq!(stops(&rig, leaving), []);
    drained(&mut rig, client, task);
    assert_eq!(iteration(&rig).phase, Phase::Finished);
}

/// Tests a task whose readers leave before or after the draining (C10.4).
#[test]
fn an_unread_task_is_stopped_and_returns_splits() {
    for leaves_before in [true, false] {
        let mut rig = Rig::new();
        let job = rig.any_job(Policy::Dynamic);
        let leaving = rig.worker(1, "one:1");
        let client = rig.client(job);
        let task = rig.tasks(leaving)[0];
        rig.lease(leaving, task).unwrap();
        let release = Request::Release { client };
        if leaves_before {
            rig.ask(READER, Role::Read, release).unwrap();
            drain(&mut rig, leaving);
        } else {
            drain(&mut rig, leaving);
            assert_eq!(stops(&rig, leaving), [], "a task with a reader is not stopped");
            rig.ask(READER, Role::Read, release).unwrap();
        }
        assert_eq!(stops(&rig, leaving), [(task, StopReason::Draining)]);
        give_back(&mut rig, leaving, task, LeaseRange { first: 0, count: 1 });
        rig.ask(leaving, Role::Worker, Request::LeaveWorker).unwrap();
        let status = iteration(&rig);
        assert_eq!(status.splits_lost, 0);
        assert_eq!((status.splits_leased, status.sources[0].remaining), (0, 100));
    }
}

/// Tests that a stopped task never starts again. A restarted task would settle the splits that it had begun
/// before (C10.4).
#[test]
fn a_stopped_task_never_begins_again() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let leaving = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(leaving)[0];
    rig.lease(leaving, task).unwrap();
    drain(&mut rig, leaving);
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
    assert_eq!(stops(&rig, leaving), [(task, StopReason::Draining)]);
    rig.restart();
    rig.worker_pushes.clear();
    rig.register_worker(1, "one:1").unwrap();
    let assigned = WorkerPush::Assigned { tasks: vec![] };
    assert!(rig.worker_pushes.contains(&(leaving, assigned)));
    assert_eq!(stops(&rig, leaving), [(task, StopReason::Draining)]);
    rig.client_pushes.clear();
    let client = rig.client(job);
    rig.ask(READER, Role::Read, Request::Attach { client }).unwrap();
    let [(_, ClientPush::Snapshot(snapshot))] = rig.client_pushes.as_slice() else {
        panic!("{:?}", rig.client_pushes)
    };
    assert_eq!(snapshot.tasks.len(), 0);
    rig.ask(leaving, Role::Worker, Request::LeaveWorker).unwrap();
    let seen = Seen::default();
    let acknowledge = Request::Acknowledge { client, task, seen };
    rig.ask(READER, Role::Read, acknowledge).unwrap();
    assert_eq!(iteration(&rig).splits_lost, 1, "the split may have been begun");
}

fn two_workers(rig: &mut Rig) -> (ClientId, [SessionId; 2], [TaskId; 2]) {
    let job = rig.any_job(Policy::Dynamic);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    let client = rig.client(job);
    let tasks = workers.map(|worker| rig.tasks(worker)[0]);
    (client, workers, tasks)
}

fn drain(rig: &mut Rig, worker: SessionId) {
    rig.ask(worker, Role::Worker, Request::DrainWorker).unwrap();
}

fn give_back(rig: &mut Rig, worker: SessionId, task: TaskId, leases: LeaseRange) {
    let leases = vec![leases];
    rig.ask(worker, Role::Worker, Request::ReturnSplits { task, leases })
        .unwrap();
}

fn cut_short(rig: &mut Rig, worker: SessionId, task: TaskId) {
    let request = Request::FinishTask {
        task,
        delivered: false,
        exhausted: false,
        cut_short: true,
    };
    rig.ask(worker, Role::Worker, request).unwrap();
}

fn drained(rig: &mut Rig, client: ClientId, task: TaskId) {
    rig.ask(READER, Role::Read, Request::TaskDrained { client, task })
        .unwrap();
}

fn iteration(rig: &Rig) -> IterationStatus {
    rig.machine.status().iterations[0].clone()
}

/// Returns the tasks that a worker was told to stop, with the reasons.
fn stops(rig: &Rig, worker: SessionId) -> Vec<(TaskId, StopReason)> {
    let mine = rig.worker_pushes.iter().filter(|(to, _)| *to == worker);
    mine.filter_map(|(_, push)| match push {
        WorkerPush::Stop { task, reason } => Some((*task, *reason)),
        WorkerPush::Assigned { .. }
        | WorkerPush::Start { .. }
        | WorkerPush::Release { .. }
        | WorkerPush::ShutDown { .. } => None,
    })
    .collect()
}
