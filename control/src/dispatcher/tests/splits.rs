//! Tests of splits: how they are leased, held, returned, and read again.

use millstream_link::Role;

use super::people::acknowledge;
use super::rig::{READER, Rig, SplitsWanted};
use crate::dispatcher::{ClientPush, Phase, Request};
use crate::error::Code;
use crate::id::{SessionId, TaskId};
use crate::job::Policy;
use crate::planner::{SourcePlan, SplitPlan};
use crate::split::{LeaseRange, Seen, SplitPace};

/// C5.5
#[test]
fn a_pipeline_may_stop_early() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let worker = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(worker)[0];
    rig.lease(worker, task).unwrap();
    rig.lease(worker, task).unwrap();
    let leases = vec![LeaseRange { first: 1, count: 2 }];
    rig.ask(worker, Role::Worker, Request::ReturnSplits { task, leases })
        .unwrap();
    let request = Request::FinishTask {
        task,
        delivered: true,
        exhausted: false,
        cut_short: false,
    };
    rig.drain_task(task);
    rig.ask(worker, Role::Worker, request).unwrap();
    assert_eq!(rig.machine.status().iterations[0].phase, Phase::Finished);
    assert_eq!(rig.tasks(worker).len(), 1);
}

/// C5.1
#[test]
fn splits_are_dealt_out_fairly() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    rig.client(job);
    let task = rig.tasks(workers[0])[0];
    let mut batches = vec![];
    while let Ok((count, false)) = rig.lease(workers[0], task) {
        batches.push(count);
    }
    assert_eq!(
        batches[..6],
        [1, 2, 4, 8, 16, 17],
        "doubling, up to a quarter of what remains"
    );
    assert_eq!(batches.iter().sum::<u64>(), 100);
    assert_eq!(batches.last(), Some(&1));
}

/// C5.2
#[test]
fn a_full_task_gets_more_after_confirmation() {
    let mut rig = Rig::new();
    rig.machine.state.config.held_splits_max = 5;
    let job = rig.any_job(Policy::Dynamic);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for count in [1, 2, 2, 0, 0] {
        assert_eq!(rig.lease(worker, task), Ok((count, false)), "no more, and no end");
    }
    let request = Request::SplitsDone {
        client,
        task,
        leases: vec![LeaseRange { first: 1, count: 3 }],
    };
    rig.ask(READER, Role::Read, request).unwrap();
    assert_eq!(rig.lease(worker, task), Ok((3, false)));
}

/// Tests a task that holds very scattered leases, as after a large shuffle (C5.2).
#[test]
fn scattered_leases_are_not_too_many() {
    let mut rig = Rig::new();
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::Counted { splits: 20_000 }],
        seed: 0,
    });
    let job = rig.any_job(Policy::Dynamic);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    let mut held = 0;
    while held < 10_000 {
        held += rig.lease(worker, task).unwrap().0;
    }
    let every_second: Vec<u64> = (0..held).step_by(2).collect();
    for leases in every_second.chunks(1000) {
        let request = Request::SplitsDone {
            client,
            task,
            leases: LeaseRange::collect(leases.iter().copied()),
        };
        rig.ask(READER, Role::Read, request).unwrap();
    }
    assert!(matches!(rig.lease(worker, task), Ok((1.., false))));
}

/// C5.4
#[test]
fn an_empty_answer_names_the_current_pass() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    rig.client(job);
    let tasks = workers.map(|worker| rig.tasks(worker)[0]);
    let mut lease = |of: usize, repetition| {
        let wanted = SplitsWanted {
            repetition,
            ..SplitsWanted::by(tasks[of])
        };
        let answer = rig.lease_wanted(workers[of], wanted).unwrap();
        (answer.runs.is_empty(), answer.end, answer.current)
    };
    assert_eq!(lease(0, 0), (false, false, 0));
    for next in 1..=70 {
        assert_eq!(lease(0, next), (false, false, next));
    }
    assert_eq!(
        lease(1, 1),
        (true, true, 70),
        "a late task need not ask for 2 to 69"
    );
}

/// Tests a worker that is lost before it returned the splits that it had not begun. The leases of the lost
/// worker mix splits that the reader has received with splits that no client has seen (C6.1).
#[test]
fn a_drained_client_reports_unfinished_workers() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(1, "dies:1");
    let client = rig.client(job);
    let task = rig.tasks(dies)[0];
    for _ in 0..3 {
        rig.lease(dies, task).unwrap();
    }
    rig.ask(READER, Role::Read, Request::TaskDrained { client, task })
        .unwrap();
    rig.ask(dies, Role::Worker, Request::LeaveWorker).unwrap();
    let row = |rig: &Rig| {
        let status = rig.machine.status().iterations[0].clone();
        (status.removals, status.splits_lost, status.sources[0].remaining)
    };
    assert_eq!(
        row(&rig),
        (1, 0, 93),
        "seven splits are held until the client has acknowledged"
    );
    let seen = Seen {
        complete: vec![],
        partial: vec![LeaseRange { first: 1, count: 2 }],
        released: 0,
    };
    acknowledge(&mut rig, client, task, seen);
    assert_eq!(row(&rig), (0, 2, 98));
}

/// Tests a client that has received the task's end. The client is not asked again, so the splits that it
/// may have seen are not repeated (C6.1, C5.6).
#[test]
fn a_drained_clients_elements_are_not_shown_again() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(1, "dies:1");
    let (drained, behind) = (rig.client(job), rig.client(job));
    let task = rig.tasks(dies)[0];
    let held = rig.lease(dies, task).unwrap().0;
    finish(&mut rig, dies, task, false, true);
    let request = Request::TaskDrained {
        client: drained,
        task,
    };
    rig.ask(READER, Role::Read, request).unwrap();
    rig.pass(6, &[], &[drained, behind]);
    acknowledge(&mut rig, behind, task, Seen::default());
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!(
        (iteration.splits_lost, iteration.sources[0].remaining),
        (held, 100 - held)
    );
}

/// Tests that a client is told of a split's end only when the users of all other clients are done with it
/// (C5.6, C6.4).
#[test]
fn a_whole_split_outlives_its_removed_task() {
    for clients in 1..=2 {
        let mut rig = Rig::new();
        let job = rig.any_job(Policy::Dynamic);
        let dies = rig.worker(1, "dies:1");
        let (deaf, other) = (rig.client(job), rig.client(job));
        let mut living = vec![deaf];
        if clients == 2 {
            living.push(other);
        } else {
            let request = Request::Release { client: other };
            rig.ask(READER, Role::Read, request).unwrap();
        }
        let task = rig.tasks(dies)[0];
        rig.lease(dies, task).unwrap();
        rig.pass(6, &[], &living);
        if clients == 2 {
            acknowledge(&mut rig, other, task, Seen::default());
        }
        let request = Request::SplitsDone {
            client: deaf,
            task,
            leases: vec![LeaseRange::one(0)],
        };
        rig.ask(READER, Role::Read, request).unwrap();
        acknowledge(&mut rig, deaf, task, Seen::default());
        let iteration = &rig.machine.status().iterations[0];
        assert_eq!((iteration.splits_done, iteration.splits_lost), (1, 0));
    }
}

/// Tests that the end of one task does not affect the splits of another task (C6.4).
#[test]
fn a_dead_workers_rest_is_read_nevertheless() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(1, "dies:1");
    let lives = rig.worker(2, "lives:2");
    let client = rig.client(job);
    let (gone, stops) = (rig.tasks(dies)[0], rig.tasks(lives)[0]);
    let left = rig.lease(dies, gone).unwrap().0;
    rig.lease(lives, stops).unwrap();
    finish(&mut rig, lives, stops, true, false);
    rig.pass(6, &[lives], &[client]);
    acknowledge(&mut rig, client, gone, Seen::default());
    let again = rig.tasks(lives)[1];
    assert_eq!(rig.lease(lives, again), Ok((left, false)));
    finish(&mut rig, lives, again, true, false);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.phase, iteration.splits_lost), (Phase::Finished, 0));
    assert_eq!(
        rig.tasks(lives).len(),
        2,
        "a split that the task did not want starts no task"
    );
}

/// Tests a task that stops early: its held splits count as read, because its reader may not have reported
/// them yet (C5.5).
#[test]
fn an_early_stop_retires_the_tasks_splits() {
    let mut rig = Rig::new();
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::Counted { splits: 10 }],
        seed: 0,
    });
    let job = rig.any_job(Policy::Dynamic);
    let stops = rig.worker(1, "stops:1");
    let reads_on = rig.worker(2, "reads-on:2");
    rig.client(job);
    let (early, other) = (rig.tasks(stops)[0], rig.tasks(reads_on)[0]);
    assert_eq!(rig.lease(stops, early), Ok((1, false)));
    finish(&mut rig, stops, early, true, false);
    let mut dealt = 0;
    while let Ok((splits @ 1.., _)) = rig.lease(reads_on, other) {
        dealt += splits;
    }
    assert_eq!(dealt, 9);
}

/// Tests that a task that holds its part gets nothing, unless it would soon be idle or cannot wait (C5.1).
#[test]
fn a_task_with_its_part_waits() {
    let mut rig = Rig::new();
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::Counted { splits: 8 }],
        seed: 0,
    });
    let job = rig.any_job(Policy::Dynamic);
    let sessions = [(1, "slow:1"), (2, "fast:1")].map(|(session, address)| rig.worker(session, address));
    rig.client(job);
    let mut lease = |session: SessionId, per_1000_s, unstarted, can_wait| {
        let wanted = SplitsWanted {
            want: 4,
            pace: Some(SplitPace {
                per_1000_s,
                unstarted,
                can_wait,
            }),
            is_idle: false,
            ..SplitsWanted::by(rig.tasks(session)[0])
        };
        let answer = rig.lease_wanted(session, wanted).unwrap();
        (answer.count(), answer.end)
    };
    assert_eq!(
        lease(sessions[0], 1_000, 0, true),
        (2, false),
        "the fast task counts as slow"
    );
    assert_eq!(lease(sessions[1], 100_000, 0, true), (2, false));
    // Four splits are free. The part of the slow task is less than one.
    assert_eq!(
        lease(sessions[0], 1_000, 2, true),
        (0, false),
        "it holds its part"
    );
    assert_eq!(
        lease(sessions[0], 1_000, 1, true),
        (1, false),
        "it would soon be idle"
    );
    assert_eq!(
        lease(sessions[0], 1_000, 5, false),
        (1, false),
        "an earlier version cannot wait"
    );
    assert_eq!(
        lease(sessions[1], 100_000, 0, true).0,
        1,
        "the part of the fast task"
    );
    assert_eq!(lease(sessions[0], 1_000, 1, true), (1, false));
    assert_eq!(lease(sessions[0], 1_000, 2, true), (0, true), "no split is left");
}

/// C5.4
#[test]
fn no_worker_skips_a_repetition() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    let worker = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(worker)[0];
    let of = |repetition| SplitsWanted {
        repetition,
        want: 1,
        ..SplitsWanted::by(task)
    };
    rig.lease_wanted(worker, of(0)).unwrap();
    for beyond in [2, u64::MAX] {
        let error = rig.lease_wanted(worker, of(beyond)).map(|_| ()).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
    }
    rig.lease_wanted(worker, of(1)).unwrap();
    rig.lease_wanted(worker, of(2)).unwrap();
}

/// Tests two sources of different lengths: the shorter source ends the pipeline, and no task reads the rest
/// of the longer one (C6.5).
#[test]
fn splits_without_takers_are_lost() {
    let mut rig = Rig::new();
    let counted = |splits| SourcePlan::Counted { splits };
    rig.plan = Ok(SplitPlan {
        sources: vec![counted(1), counted(50)],
        seed: 0,
    });
    let job = rig.any_job(Policy::Dynamic);
    let dies = rig.worker(1, "dies:1");
    let client = rig.client(job);
    let gone = rig.tasks(dies)[0];
    rig.lease(dies, gone).unwrap();
    let longer = SplitsWanted {
        source: 1,
        want: 1,
        ..SplitsWanted::by(gone)
    };
    rig.lease_wanted(dies, longer).unwrap();
    let lives = rig.worker(2, "lives:2");
    let kept = rig.tasks(lives)[0];
    assert_eq!(rig.lease(lives, kept), Ok((0, true)));
    finish(&mut rig, lives, kept, true, true);
    rig.pass(6, &[lives], &[client]);
    let seen = Seen {
        complete: vec![LeaseRange::one(0)],
        partial: vec![],
        ..Seen::default()
    };
    acknowledge(&mut rig, client, gone, seen);
    let again = rig.tasks(lives)[1];
    assert_eq!(
        rig.lease(lives, again),
        Ok((0, true)),
        "the task meets the end of the shorter source at once"
    );
    finish(&mut rig, lives, again, true, true);
    assert_eq!(rig.tasks(lives).len(), 2);
    let iteration = &rig.machine.status().iterations[0];
    assert_eq!((iteration.phase, iteration.splits_lost), (Phase::Finished, 1));
    assert_eq!(rig.told(&ClientPush::IterationFinished { splits_lost: 1 }), 1);
}

fn finish(rig: &mut Rig, worker: SessionId, task: TaskId, delivered: bool, exhausted: bool) {
    if delivered {
        rig.drain_task(task);
    }
    let request = Request::FinishTask {
        task,
        delivered,
        exhausted,
        cut_short: false,
    };
    rig.ask(worker, Role::Worker, request).unwrap();
}
