//! Tests of ordered jobs: the splits that a task may get, and the tasks that read released splits.

use millstream_link::Role;

use super::people::acknowledge;
use super::rig::{Rig, SplitsWanted, facts};
use crate::dispatcher::{Phase, Request};
use crate::id::{JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{SourcePlan, SplitPlan};
use crate::split::{LeaseRange, Seen, SplitPace};

/// C6.9
#[test]
fn freed_splits_go_first_to_new_tasks() {
    let mut rig = Rig::new();
    let job = job_in_order(&mut rig);
    let (dies, lives) = (rig.worker(1, "dies:1"), rig.worker(2, "lives:2"));
    let client = rig.client(job);
    let (gone, ahead) = (rig.tasks(dies)[0], rig.tasks(lives)[0]);
    assert_eq!(dealt(&mut rig, lives, ahead), [0]);
    assert_eq!(dealt(&mut rig, dies, gone), [1]);
    assert_eq!(dealt(&mut rig, dies, gone), [2, 3]);
    assert_eq!(dealt(&mut rig, lives, ahead), [4, 5]);
    rig.pass(6, &[lives], &[client]);
    acknowledge(&mut rig, client, gone, Seen::default());
    let late = rig.tasks(lives)[1];
    assert_eq!(
        dealt(&mut rig, lives, ahead),
        [6, 7, 8, 9],
        "a task gets no earlier split than before"
    );
    for index in [1, 2, 3] {
        assert_eq!(dealt(&mut rig, lives, late), [index]);
    }
    assert!(
        dealt(&mut rig, lives, late).is_empty(),
        "the other task gets the remaining splits"
    );
    rig.finish(lives, late);
    let status = &rig.machine.status().iterations[0];
    assert_eq!(
        (status.phase, status.tasks.len()),
        (Phase::Running, 1),
        "the task is forgotten"
    );
    read_to_the_end(&mut rig, lives, ahead);
    let status = &rig.machine.status().iterations[0];
    assert_eq!(
        (status.phase, status.splits_lost, status.splits_done),
        (Phase::Finished, 0, 100)
    );
    assert_eq!(rig.tasks(lives).len(), 2);
}

/// C6.9
#[test]
fn a_second_loss_starts_further_tasks() {
    let mut rig = Rig::new();
    let job = job_in_order(&mut rig);
    let workers = [1, 2, 3].map(|session| rig.worker(session, &format!("worker-{session}:1")));
    let client = rig.client(job);
    let tasks = workers.map(|worker| rig.tasks(worker)[0]);
    for (worker, task) in workers.into_iter().zip(tasks) {
        dealt(&mut rig, worker, task);
    }
    let [first, second, lives] = workers;
    rig.pass(6, &[second, lives], &[client]);
    acknowledge(&mut rig, client, tasks[0], Seen::default());
    let late = rig.tasks(second)[1];
    assert_eq!(dealt(&mut rig, second, late), [0]);
    rig.pass(6, &[lives], &[client]);
    for task in [tasks[1], late] {
        acknowledge(&mut rig, client, task, Seen::default());
    }
    let later = *rig.tasks(lives).last().unwrap();
    assert_eq!(dealt(&mut rig, lives, later), [0]);
    assert_eq!(dealt(&mut rig, lives, later), [1]);
    assert_eq!(dealt(&mut rig, lives, tasks[2])[0], 3);
    assert!(rig.tasks(first).len() == 1);
}

/// C5.9, C10.2
#[test]
fn a_draining_workers_splits_are_read_at_once() {
    let mut rig = Rig::new();
    let job = job_in_order(&mut rig);
    let (leaves, stays) = (rig.worker(1, "leaves:1"), rig.worker(2, "stays:2"));
    rig.client(job);
    let (left, ahead) = (rig.tasks(leaves)[0], rig.tasks(stays)[0]);
    dealt(&mut rig, leaves, left);
    assert_eq!(dealt(&mut rig, leaves, left), [1, 2]);
    assert_eq!(dealt(&mut rig, stays, ahead), [3]);
    rig.ask(leaves, Role::Worker, Request::DrainWorker).unwrap();
    let leases = vec![LeaseRange { first: 1, count: 2 }];
    let request = Request::ReturnSplits { task: left, leases };
    rig.ask(leaves, Role::Worker, request).unwrap();
    let late = rig.tasks(stays)[1];
    assert_eq!(dealt(&mut rig, stays, late), [1]);
    assert_eq!(rig.tasks(leaves).len(), 1);
}

/// Tests that a task which has passed the free splits does not count as their reader (C5.9).
#[test]
fn a_worker_that_joins_takes_freed_splits_first() {
    let mut rig = Rig::new();
    let job = job_in_order(&mut rig);
    let dies = rig.worker(1, "dies:1");
    let client = rig.client(job);
    let gone = rig.tasks(dies)[0];
    dealt(&mut rig, dies, gone);
    assert_eq!(dealt(&mut rig, dies, gone), [1, 2]);
    rig.pass(6, &[], &[client]);
    acknowledge(&mut rig, client, gone, Seen::default());
    let joins = rig.worker(2, "joins:2");
    let task = rig.tasks(joins)[0];
    assert_eq!(dealt(&mut rig, joins, task), [0]);
    assert_eq!(dealt(&mut rig, joins, task), [1, 2]);
    assert_eq!(dealt(&mut rig, joins, task), [3, 4, 5, 6]);
    assert_eq!(rig.tasks(joins).len(), 1);
}

/// Tests splits that a running task returns, whose pipeline may have ended before them (C5.5).
#[test]
fn what_a_running_task_returns_starts_no_task() {
    let mut rig = Rig::new();
    let job = job_in_order(&mut rig);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    rig.client(job);
    let tasks = workers.map(|worker| rig.tasks(worker)[0]);
    dealt(&mut rig, workers[0], tasks[0]);
    dealt(&mut rig, workers[1], tasks[1]);
    let leases = vec![LeaseRange::one(0)];
    let task = tasks[0];
    rig.ask(workers[0], Role::Worker, Request::ReturnSplits { task, leases })
        .unwrap();
    let early = Request::FinishTask {
        task,
        delivered: true,
        exhausted: false,
        cut_short: false,
    };
    rig.ask(workers[0], Role::Worker, early).unwrap();
    assert_eq!(workers.map(|worker| rig.tasks(worker).len()), [1, 1]);
}

/// C2.7
#[test]
fn only_dealt_splits_can_be_read_in_order() {
    let mut rig = Rig::new();
    let dataset = rig.register(None, facts()).unwrap();
    let parameters = JobParameters {
        in_order: true,
        ..JobParameters::new(dataset, Policy::Off)
    };
    let error = rig.job(None, parameters).unwrap_err();
    assert!(error.message.contains("in_order needs"), "{error}");
}

/// C5.9
#[test]
fn only_lone_tasks_get_long_leases() {
    for (workers, expected) in [(1, 1024), (2, 256)] {
        let mut rig = Rig::new();
        rig.plan = Ok(SplitPlan {
            sources: vec![SourcePlan::Counted { splits: 100_000_000 }],
            seed: 0,
        });
        let job = job_in_order(&mut rig);
        let sessions: Vec<_> = (1..=workers)
            .map(|worker| rig.worker(worker, &format!("at:{worker}")))
            .collect();
        rig.client(job);
        let task = rig.tasks(sessions[0])[0];
        // The task reads 100 000 splits a second, and holds 13 s of them.
        let (splits, _) = dealt_at(&mut rig, sessions[0], task, (100_000_000, 1_300_000));
        assert_eq!(splits, expected, "{workers} workers");
    }
}

/// Tests that a task of unknown pace is noticed at once, although sums over many tasks serve several leases
/// (C5.9).
#[test]
fn no_lease_follows_before_late_tasks_begin() {
    let mut rig = Rig::new();
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::Counted { splits: 1_000_000 }],
        seed: 0,
    });
    let job = job_in_order(&mut rig);
    let mut sessions: Vec<_> = (11..=50)
        .map(|worker| rig.worker(worker, &format!("at:{worker}")))
        .collect();
    rig.client(job);
    let offers = |rig: &mut Rig, session: SessionId| {
        let task = rig.tasks(session)[0];
        dealt_at(rig, session, task, (50_000, 0)).1
    };
    for round in 0..2 {
        let may_follow: Vec<bool> = sessions
            .iter()
            .map(|session| offers(&mut rig, *session))
            .collect();
        assert_eq!(
            may_follow,
            vec![round > 0; 40],
            "every task reports its pace with the first request"
        );
    }
    // A worker that returns has a new task, although the number of tasks stays the same.
    for address in ["at:51", "at:51"] {
        // The sums of this lease serve the next ones.
        assert!(offers(&mut rig, sessions[0]));
        sessions.push(rig.worker(11 + sessions.len() as u64, address));
        assert!(!offers(&mut rig, sessions[0]), "the new task has no pace");
        let latest = sessions[sessions.len() - 1];
        for _ in 0..2 * sessions.len() {
            offers(&mut rig, latest);
        }
    }
    assert_eq!(rig.machine.state.divisions.len(), 1);
    // The client sends no more heartbeats, so that its job ends.
    rig.pass(600, &[], &[]);
    assert_eq!(
        rig.machine.state.divisions.len(),
        0,
        "the sums of an ended job are forgotten"
    );
}

/// Returns the number of splits that a task is leased, and whether another lease may follow. The task reads
/// `per_1000_s` splits in 1000 s, and holds `unstarted` splits.
fn dealt_at(
    rig: &mut Rig,
    session: SessionId,
    task: TaskId,
    (per_1000_s, unstarted): (u64, u64),
) -> (u64, bool) {
    let wanted = SplitsWanted {
        want: 2000,
        pace: Some(SplitPace {
            per_1000_s,
            unstarted,
            can_wait: true,
        }),
        is_idle: false,
        ..SplitsWanted::by(task)
    };
    let answer = rig.lease_wanted(session, wanted).unwrap();
    (answer.count(), answer.more)
}

fn job_in_order(rig: &mut Rig) -> JobId {
    let dataset = rig.register(None, facts()).unwrap();
    let parameters = JobParameters {
        in_order: true,
        ..JobParameters::new(dataset, Policy::Dynamic)
    };
    rig.job(None, parameters).unwrap()
}

/// Returns the indices of the splits that a task is leased.
fn dealt(rig: &mut Rig, session: SessionId, task: TaskId) -> Vec<u64> {
    let answer = rig.lease_wanted(session, SplitsWanted::by(task)).unwrap();
    let indices = answer
        .runs
        .iter()
        .flat_map(|run| run.first_index..run.first_index + run.count);
    indices.collect()
}

fn read_to_the_end(rig: &mut Rig, session: SessionId, task: TaskId) {
    while !dealt(rig, session, task).is_empty() {}
    rig.finish(session, task);
}
