//! Tests of workers and clients: how they start and leave, and what other processes are told.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{READER, Rig, failed};
use crate::dispatcher::{ClientPush, Phase, RemovalReason, Request, Snapshot, TaskRemoved, WorkerPush};
use crate::error::Code;
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;
use crate::split::{LeaseRange, Seen};

/// C3.2, C3.4, C3.5, C4.1
#[test]
fn an_iteration_ends_with_its_last_task() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let first = rig.worker(1, "one:1");
    let client = rig.client(job);
    let second = rig.worker(2, "two:2");
    let (a, b) = (rig.tasks(first)[0], rig.tasks(second)[0]);
    rig.finish(first, a);
    let finished = ClientPush::IterationFinished { splits_lost: 0 };
    assert_eq!(rig.told(&finished), 0);
    rig.finish(second, b);
    assert_eq!(rig.told(&finished), 1);
    let late = rig.client(job);
    rig.ask(READER, Role::Read, Request::Attach { client: late })
        .unwrap();
    let (to, push) = rig.client_pushes.last().unwrap();
    assert_eq!(*to, late);
    assert!(matches!(push, ClientPush::Snapshot(snapshot) if snapshot.finished && snapshot.tasks.is_empty()));
    assert_ne!(client, late);
}

/// Tests a dead worker under the policy `off`: other tasks continue, and nothing is repeated (C6.1).
#[test]
fn under_off_a_dead_worker_is_left_out() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let lives = rig.worker(1, "lives:1");
    let dies = rig.worker(2, "dies:2");
    let client = rig.client(job);
    let (kept, gone) = (rig.tasks(lives)[0], rig.tasks(dies)[0]);
    rig.pass(6, &[lives], &[client]);
    let removed = ClientPush::TaskRemoved(TaskRemoved {
        task: gone,
        worker_address: "dies:2".to_owned(),
        reason: RemovalReason::WorkerSilent,
        start_round: 0,
    });
    assert_eq!(rig.told(&removed), 1);
    assert_eq!(rig.disconnected, [dies]);
    rig.finish(lives, kept);
    assert_eq!(
        rig.machine.status().iterations[0].phase,
        Phase::Running,
        "the removal is not acknowledged"
    );
    acknowledge(&mut rig, client, gone, Seen::default());
    assert_eq!(rig.machine.status().iterations[0].phase, Phase::Finished);
    assert_eq!(rig.tasks(lives), [kept], "nothing is produced again");
}

/// C6.4, C6.5
#[test]
fn a_dead_workers_splits_are_sorted() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(2, "dies:2");
    let client = rig.client(job);
    let gone = rig.tasks(dies)[0];
    let held: u64 = (0..3).map(|_| rig.lease(dies, gone).unwrap().0).sum();
    assert_eq!(held, 1 + 2 + 4);
    let lives = rig.worker(1, "lives:1");
    let kept = rig.tasks(lives)[0];
    while !rig.lease(lives, kept).unwrap().1 {}
    rig.finish(lives, kept);
    rig.pass(6, &[lives], &[client]);
    let seen = Seen {
        complete: vec![LeaseRange { first: 0, count: 2 }],
        partial: vec![LeaseRange::one(2)],
        ..Seen::default()
    };
    acknowledge(&mut rig, client, gone, seen.clone());
    acknowledge(&mut rig, client, gone, seen);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!(
        (
            iteration.splits_lost,
            iteration.lost[0].first,
            iteration.lost.len()
        ),
        (1, 2, 1)
    );
    let again = rig.tasks(lives)[1];
    let mut read = 0;
    while let Ok((count, false)) = rig.lease(lives, again) {
        read += count;
    }
    assert_eq!(read, 4, "what nobody saw is read again");
    rig.finish(lives, again);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!(
        (iteration.phase, iteration.splits_done, iteration.splits_lost),
        (Phase::Finished, 99, 1)
    );
}

/// C6.3
#[test]
fn a_silent_client_counts_as_having_seen_all() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(2, "dies:2");
    let client = rig.client(job);
    let gone = rig.tasks(dies)[0];
    rig.lease(dies, gone).unwrap();
    rig.pass(6, &[], &[client]);
    assert_eq!(rig.machine.status().iterations[0].removals, 1);
    rig.pass(31, &[], &[client]);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.removals, iteration.splits_lost), (0, 1));
}

/// C6.6
#[test]
fn a_failed_tasks_splits_are_not_retried() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let worker = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(worker)[0];
    rig.lease(worker, task).unwrap();
    let message = "corrupt JPEG cat.jpg";
    rig.ask(worker, Role::Worker, failed(task, message)).unwrap();
    let told = ClientPush::TaskFailed {
        task,
        worker_address: "one:1".to_owned(),
        message: message.to_owned(),
        element: None,
    };
    assert_eq!(rig.told(&told), 1);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.phase, iteration.splits_lost), (Phase::Finished, 1));
}

/// Tests a failed task. Only the task's worker reports the failure to readers, after the elements that
/// precede the failure (C6.6, C4.1).
#[test]
fn a_failed_task_ends_with_its_worker() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let (failing, other) = (rig.worker(1, "one:1"), rig.worker(2, "two:1"));
    let client = rig.client(job);
    let (task, good) = (rig.tasks(failing)[0], rig.tasks(other)[0]);
    rig.ask(failing, Role::Worker, failed(task, "corrupt JPEG cat.jpg"))
        .unwrap();
    let listed = |rig: &mut Rig| {
        let snapshot = snapshot(rig, client);
        assert_eq!(snapshot.failed.len(), 1);
        snapshot.tasks.iter().map(|info| info.task).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut rig), [task, good], "its worker has more to say");
    assert_eq!(rig.told(&ClientPush::TaskEnded { task }), 0);
    rig.ask(failing, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(rig.told(&ClientPush::TaskEnded { task }), 1);
    assert_eq!(listed(&mut rig), [good]);
}

/// C6.6, C3.5
#[test]
fn a_late_client_learns_of_the_failure() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let workers: Vec<_> = (1..=20)
        .map(|number| rig.worker(number, &format!("worker:{number}")))
        .collect();
    rig.client(job);
    for worker in &workers {
        let task = rig.tasks(*worker)[0];
        rig.ask(*worker, Role::Worker, failed(task, "corrupt JPEG cat.jpg"))
            .unwrap();
    }
    assert_eq!(rig.machine.status().iterations[0].phase, Phase::Finished);
    let late = rig.client(job);
    let snapshot = snapshot(&mut rig, late);
    assert!(snapshot.finished);
    assert_eq!(snapshot.failed.len(), 16, "the first ones stand for all");
    let first = &snapshot.failed[0];
    assert_eq!(
        (first.task, first.worker_address.as_str(), first.message.as_str()),
        (rig.tasks(workers[0])[0], "worker:1", "corrupt JPEG cat.jpg")
    );
}

/// C3.3
#[test]
fn a_task_settles_with_its_last_client() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let first = rig.client(job);
    let task = rig.tasks(worker)[0];
    let drained = |client| Request::TaskDrained { client, task };
    rig.ask(READER, Role::Read, drained(first)).unwrap();
    let late = rig.client(job);
    let finished = Request::FinishTask {
        task,
        delivered: false,
        exhausted: true,
        cut_short: false,
    };
    rig.ask(worker, Role::Worker, finished).unwrap();
    let phase = |rig: &Rig| rig.machine.status().iterations[0].phase;
    assert_eq!(phase(&rig), Phase::Running, "one came meanwhile");
    rig.ask(READER, Role::Read, drained(late)).unwrap();
    assert_eq!(phase(&rig), Phase::Finished);
}

/// C3.3
#[test]
fn a_client_learns_of_an_end_it_missed() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let other = rig.worker(2, "two:2");
    let (drained, behind) = (rig.client(job), rig.client(job));
    let task = rig.tasks(worker)[0];
    let request = Request::TaskDrained {
        client: drained,
        task,
    };
    rig.ask(READER, Role::Read, request).unwrap();
    rig.finish(worker, task);
    let ended: Vec<_> = rig
        .client_pushes
        .iter()
        .filter(|(_, push)| *push == ClientPush::TaskEnded { task })
        .map(|(client, _)| *client)
        .collect();
    assert_eq!(ended, [behind]);
    let left: Vec<_> = snapshot(&mut rig, behind)
        .tasks
        .iter()
        .map(|info| info.task)
        .collect();
    assert_eq!(
        left,
        rig.tasks(other),
        "and the snapshot does not name it any more"
    );
}

/// C7.1, C7.2, C7.3
#[test]
fn a_restarted_worker_is_another_worker() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let old = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(old)[0];
    let new = rig.worker(2, "one:1");
    assert_eq!(rig.disconnected, [old]);
    assert_eq!(rig.tasks(new).len(), 1);
    assert_ne!(rig.tasks(new)[0], task);
    let request = Request::FinishTask {
        task: rig.tasks(new)[0],
        delivered: true,
        exhausted: true,
        cut_short: false,
    };
    let error = rig.ask(old, Role::Worker, request).unwrap_err();
    assert_eq!(error.code, Code::Aborted);
    assert!(error.message.contains("restarted"), "{error}");
    // The same incarnation reconnects and keeps its task.
    let again = rig.worker(2, "one:1");
    let assigned = WorkerPush::Assigned {
        tasks: rig.tasks(new),
    };
    assert_eq!(rig.worker_pushes.last().unwrap(), &(again, assigned));
}

/// C7.5
#[test]
fn clients_learn_which_workers_are_gone() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let client = rig.client(job);
    rig.pass(60, &[], &[client]);
    assert!(rig.machine.status().iterations[0].waiting_for_workers);
    assert!(
        rig.client_pushes.is_empty(),
        "waiting for the first worker is no loss"
    );
    rig.worker(1, "one:1");
    rig.worker(2, "two:2");
    rig.pass(20, &[], &[client]);
    let lost = ClientPush::WorkersLost {
        workers: vec!["one:1".to_owned(), "two:2".to_owned()],
    };
    assert_eq!(rig.told(&lost), 1);
    rig.ask(READER, Role::Read, Request::Attach { client }).unwrap();
    assert_eq!(rig.told(&lost), 2, "who comes back is told as well");
}

/// C7.6
#[test]
fn a_suspended_dispatcher_blames_no_worker() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    rig.now += Duration::from_secs(400);
    rig.pass(1, &[worker], &[client]);
    let counts = rig.machine.status().counts;
    assert_eq!((counts.workers, counts.clients), (1, 1));
    rig.pass(6, &[], &[client]);
    assert_eq!(rig.machine.status().counts.workers, 0, "its own silence counts");
}

/// C7.6, C7.5, C3.6
#[test]
fn a_suspended_dispatcher_restores_everybodys_grace() {
    let mut rig = Rig::new();
    let (read, unread) = (rig.any_job(Policy::Off), rig.any_job(Policy::Off));
    let worker = rig.worker(1, "one:1");
    let client = rig.client(read);
    let gone = rig.client(unread);
    rig.ask(READER, Role::Read, Request::Release { client: gone })
        .unwrap();
    rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
    rig.pass(1, &[], &[client]);
    rig.now += Duration::from_secs(700);
    rig.pass(1, &[], &[client]);
    let status = rig.machine.status();
    assert!(status.iterations.iter().all(|row| row.phase == Phase::Running));
    assert_eq!(status.workers.len(), 1, "it is still shown");
    let lost = ClientPush::WorkersLost {
        workers: vec!["one:1".to_owned()],
    };
    assert_eq!(rig.told(&lost), 0);
    rig.pass(12, &[], &[client]);
    assert_eq!(rig.told(&lost), 1, "its own grace counts");
}

/// C7.4
#[test]
fn an_early_heartbeat_disconnects_nobody() {
    let mut rig = Rig::new();
    rig.pass(1, &[SessionId(1)], &[]);
    let worker = rig.worker(1, "one:1");
    rig.pass(1, &[worker], &[]);
    assert!(rig.disconnected.is_empty());
    rig.pass(6, &[], &[]);
    rig.pass(1, &[worker], &[]);
    assert_eq!(rig.disconnected.first(), Some(&worker), "this one was given up");
}

/// C7.2
#[test]
fn incarnations_at_one_address_share_one_row() {
    let mut rig = Rig::new();
    rig.machine.state.config.workers_max = 2;
    let job = rig.any_job(Policy::Off);
    rig.client(job);
    for number in 1..=20 {
        rig.worker(number, "one:1");
    }
    rig.worker(100, "two:2");
    let status = rig.machine.status();
    assert_eq!((status.counts.workers, status.workers.len()), (2, 3));
    let third = rig.register_worker(101, "three:3").unwrap_err();
    assert_eq!(third.code, Code::ResourceExhausted, "these two live");
}

/// C4.3
#[test]
fn a_silent_client_is_released_and_told_later() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    rig.pass(299, &[worker], &[]);
    assert_eq!(rig.machine.status().counts.clients, 1);
    rig.pass(3, &[worker], &[]);
    assert_eq!(rig.machine.status().counts.clients, 0);
    rig.pass(1, &[worker], &[client]);
    assert!(rig.told(&ClientPush::Lapsed) > 0);
}

/// C6.2
#[test]
fn a_dead_clients_elements_are_not_shown_again() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(1, "dies:1");
    let gone = rig.client(job);
    let stays = rig.client(job);
    let task = rig.tasks(dies)[0];
    rig.lease(dies, task).unwrap();
    rig.ask(READER, Role::Read, Request::Release { client: gone })
        .unwrap();
    rig.lease(dies, task).unwrap();
    rig.pass(6, &[], &[stays]);
    acknowledge(&mut rig, stays, task, Seen::default());
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.splits_lost, iteration.sources[0].remaining), (1, 99));
}

pub(super) fn acknowledge(rig: &mut Rig, client: ClientId, task: TaskId, seen: Seen) {
    let request = Request::Acknowledge { client, task, seen };
    rig.ask(READER, Role::Read, request).unwrap();
}

pub(super) fn snapshot(rig: &mut Rig, client: ClientId) -> Snapshot {
    rig.ask(READER, Role::Read, Request::Attach { client }).unwrap();
    let last = rig.client_pushes.iter().rev().find(|(to, _)| *to == client);
    match last {
        Some((_, ClientPush::Snapshot(snapshot))) => snapshot.clone(),
        other => panic!("expected a snapshot, not {other:?}"),
    }
}

#[test]
fn releasing_one_client_leaves_the_others() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let [first, gone, last] = [(); 3].map(|()| rig.client(job));
    let release = Request::Release { client: gone };
    rig.ask(READER, Role::Read, release.clone()).unwrap();
    let clients = &rig.machine.status().iterations[0].clients;
    let found: Vec<ClientId> = clients.iter().map(|client| client.id).collect();
    assert_eq!(found, [first, last]);
    let error = rig.ask(READER, Role::Read, release).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
}
