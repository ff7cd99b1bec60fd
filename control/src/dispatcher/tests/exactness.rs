//! Tests of exactly-once jobs: their checks, their only reader, and splits that are never lost (C16).

use std::time::Duration;

use millstream_link::Role;

use super::people::acknowledge;
use super::rig::{READER, Rig, SplitsWanted, facts, open};
use crate::dispatcher::{
    ClientPush, DispatcherConfig, Event, IterationStatus, Phase, Reply, Request, Run, TaskPhase,
};
use crate::error::{Code, Error};
use crate::exactly_once::ExactlyOnce;
use crate::id::{ClientId, JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{SourcePlan, SplitPlan};
use crate::split::{LeaseRange, Seen};

const OTHER: SessionId = SessionId(11);
/// The time after which an iteration without a reader is given up.
const UNREAD_S: u64 = 20;

/// An exactly-once job of 100 splits, with one reader, a worker that dies and a worker that lives.
struct Exact {
    rig: Rig,
    job: JobId,
    client: ClientId,
    dies: SessionId,
    lives: SessionId,
    gone: TaskId,
    kept: TaskId,
}

impl Exact {
    fn new() -> Exact {
        let mut rig = Rig::with(DispatcherConfig {
            job_gc_check_interval: Duration::ZERO,
            job_gc_timeout: Some(Duration::from_secs(UNREAD_S)),
            ..DispatcherConfig::default()
        });
        let job = job(&mut rig, ExactlyOnce::whole(7));
        let (dies, lives) = (rig.worker(1, "dies:1"), rig.worker(2, "lives:2"));
        let client = rig.client(job);
        let (gone, kept) = (rig.tasks(dies)[0], rig.tasks(lives)[0]);
        Exact {
            rig,
            job,
            client,
            dies,
            lives,
            gone,
            kept,
        }
    }

    /// Leases the splits 0 to 2 to the task that will be gone, as leases 0 to 2.
    fn lease_three(&mut self) {
        let first = leased(&mut self.rig, self.dies, self.gone);
        let second = leased(&mut self.rig, self.dies, self.gone);
        assert_eq!([first, second].concat(), [(0, 0), (1, 0), (2, 0)]);
    }

    /// Lets the worker die, and the reader acknowledge the removal with these seen splits.
    fn lose_worker(&mut self, seen: Seen) {
        self.rig.pass(6, &[self.lives], &[self.client]);
        acknowledge(&mut self.rig, self.client, self.gone, seen);
    }

    fn ask_worker(&mut self, session: SessionId, request: Request) -> Result<Reply, Error> {
        self.rig.ask(session, Role::Worker, request)
    }

    /// Lets the living worker read all remaining splits, and returns those with a later attempt.
    fn read_all(&mut self) -> Vec<(u64, u32)> {
        let mut again = Vec::new();
        for _ in 0..3 {
            for task in self.rig.tasks(self.lives) {
                if !self.runs(task) {
                    continue;
                }
                loop {
                    let splits = leased(&mut self.rig, self.lives, task);
                    if splits.is_empty() {
                        break;
                    }
                    again.extend(splits.into_iter().filter(|(_, attempt)| *attempt > 0));
                }
                self.rig.finish(self.lives, task);
            }
            if self.status().phase == Phase::Finished {
                break;
            }
        }
        again.sort_unstable();
        again
    }

    fn runs(&self, task: TaskId) -> bool {
        let task = self.rig.machine.state.tables.tasks.get(&task);
        task.is_some_and(|task| task.phase == TaskPhase::Running)
    }

    fn status(&self) -> IterationStatus {
        self.rig.machine.status().iterations[0].clone()
    }

    /// Panics unless the iteration has ended, and all of its splits are done.
    fn check_complete(&self) {
        let status = self.status();
        let counts = (status.phase, status.splits_done, status.splits_lost);
        assert_eq!(counts, (Phase::Finished, 100, 0));
        let is_loss = |push: &ClientPush| {
            matches!(
                push,
                ClientPush::SplitsLost { .. } | ClientPush::TaskFailed { .. }
            )
        };
        assert!(!self.rig.client_pushes.iter().any(|(_, push)| is_loss(push)));
    }
}

/// C16.4
#[test]
fn partly_seen_splits_are_leased_again() {
    let mut exact = Exact::new();
    exact.lease_three();
    exact.lose_worker(Seen {
        complete: vec![LeaseRange::one(0)],
        partial: vec![LeaseRange::one(1)],
        ..Seen::default()
    });
    assert_eq!(exact.read_all(), [(1, 1), (2, 1)]);
    exact.check_complete();
}

/// C16.4
#[test]
fn a_silent_readers_splits_are_leased_again() {
    let mut exact = Exact::new();
    exact.lease_three();
    exact.rig.pass(6, &[exact.lives], &[exact.client]);
    let waits = exact.rig.machine.config().acknowledge_timeout;
    exact
        .rig
        .pass(waits.as_secs() - 1, &[exact.lives], &[exact.client]);
    assert_eq!(exact.status().removals, 1, "the dispatcher waits for the reader");
    exact.rig.pass(2, &[exact.lives], &[exact.client]);
    assert_eq!(exact.status().removals, 0, "the wait is bounded");
    assert_eq!(exact.read_all(), [(0, 1), (1, 1), (2, 1)]);
    exact.check_complete();
}

/// C16.4
#[test]
fn a_second_death_raises_the_attempt_again() {
    let mut exact = Exact::new();
    exact.lease_three();
    assert_eq!(leased(&mut exact.rig, exact.lives, exact.kept), [(3, 0)]);
    let partial = vec![LeaseRange { first: 0, count: 3 }];
    let seen = Seen {
        partial,
        ..Seen::default()
    };
    exact.lose_worker(seen);
    let late = *exact.rig.tasks(exact.lives).last().unwrap();
    let again = leased_runs(&mut exact.rig, exact.lives, late);
    assert_eq!((again[0].first_index, again[0].attempt), (0, 1));
    let next = exact.rig.worker(3, "next:3");
    exact.rig.pass(6, &[next], &[exact.client]);
    for task in [exact.kept, late] {
        let partial = vec![LeaseRange {
            first: 0,
            count: 1000,
        }];
        let seen = Seen {
            partial,
            ..Seen::default()
        };
        acknowledge(&mut exact.rig, exact.client, task, seen);
    }
    exact.lives = next;
    let again = exact.read_all();
    assert_eq!(again[..4], [(0, 2), (1, 1), (2, 1), (3, 1)]);
    exact.check_complete();
}

/// C16.4, C10.2
#[test]
fn a_draining_workers_splits_reach_the_reader() {
    let mut exact = Exact::new();
    exact.lease_three();
    let (dies, task) = (exact.dies, exact.gone);
    exact.ask_worker(dies, Request::DrainWorker).unwrap();
    let leases = vec![LeaseRange::one(2)];
    exact
        .ask_worker(dies, Request::ReturnSplits { task, leases })
        .unwrap();
    // The worker leaves before it has read its begun splits to the end.
    exact.ask_worker(dies, Request::LeaveWorker).unwrap();
    exact.lose_worker(Seen {
        partial: vec![LeaseRange { first: 0, count: 2 }],
        ..Seen::default()
    });
    assert_eq!(exact.read_all(), [(0, 1), (1, 1)]);
    exact.check_complete();
}

/// C16.4, C6.7
#[test]
fn missed_splits_are_leased_again() {
    let mut exact = Exact::new();
    exact.lease_three();
    let (dies, task, client) = (exact.dies, exact.gone, exact.client);
    let leases = vec![LeaseRange::one(1)];
    exact
        .ask_worker(dies, Request::SplitsMissed(task, client, leases, false))
        .unwrap();
    assert_eq!(exact.status().splits_lost, 0);
    assert_eq!(exact.read_all(), [(1, 1)]);
    exact.rig.finish(dies, task);
    exact.check_complete();
}

/// C16.6
#[test]
fn a_task_that_stops_early_fails() {
    let mut exact = Exact::new();
    let early = Request::FinishTask {
        task: exact.gone,
        delivered: false,
        exhausted: false,
        cut_short: false,
    };
    exact.ask_worker(exact.dies, early).unwrap();
    let of_task = |push: &ClientPush| matches!(push, ClientPush::TaskFailed { task, message, .. } if *task == exact.gone && message.contains("before its splits did"));
    assert!(exact.rig.client_pushes.iter().any(|(_, push)| of_task(push)));
}

/// C16.6
#[test]
fn unread_splits_are_an_error() {
    let mut exact = Exact::new();
    exact.lease_three();
    leased(&mut exact.rig, exact.lives, exact.kept);
    exact.lose_worker(Seen::default());
    let late = *exact.rig.tasks(exact.lives).last().unwrap();
    exact.rig.finish(exact.lives, late);
    while !leased(&mut exact.rig, exact.lives, exact.kept).is_empty() {}
    exact.rig.finish(exact.lives, exact.kept);
    assert_eq!(exact.status().phase, Phase::Finished);
    let failed = |push: &ClientPush| matches!(push, ClientPush::TaskFailed { task, .. } if *task == late);
    assert!(exact.rig.client_pushes.iter().any(|(_, push)| failed(push)));
}

/// C16.5
#[test]
fn a_second_reader_is_refused_for_good() {
    let mut exact = Exact::new();
    let second = |exact: &mut Exact| exact.rig.ask(OTHER, Role::Read, open(exact.job)).unwrap_err();
    let error = second(&mut exact);
    assert_eq!(error.code, Code::FailedPrecondition);
    assert!(error.message.contains("has one reader"), "{error}");
    exact.rig.restart();
    exact.rig.pass(1, &[exact.dies, exact.lives], &[exact.client]);
    let client = exact.client;
    exact
        .rig
        .ask(READER, Role::Read, Request::Release { client })
        .unwrap();
    assert_eq!(second(&mut exact).code, Code::FailedPrecondition);
    assert_eq!(
        exact.rig.tasks(exact.lives).len(),
        1,
        "no task is started without a reader"
    );
}

/// C16.5, C3.6
#[test]
fn an_unread_iteration_is_given_up() {
    let mut exact = Exact::new();
    exact.lease_three();
    let client = exact.client;
    exact
        .rig
        .ask(READER, Role::Read, Request::Release { client })
        .unwrap();
    assert_eq!(exact.status().splits_lost, 0);
    exact.rig.pass(UNREAD_S - 1, &[exact.dies, exact.lives], &[]);
    assert_eq!(exact.rig.machine.status().iterations.len(), 1);
    exact.rig.pass(2, &[exact.dies, exact.lives], &[]);
    assert!(exact.rig.machine.status().iterations.is_empty());
}

/// C16.5
#[test]
fn only_the_first_waiting_reader_joins() {
    let mut rig = Rig::new();
    rig.plans_itself = false;
    let job = job(&mut rig, ExactlyOnce::whole(7));
    let first = rig.send(READER, Role::Read, open(job));
    let second = rig.send(OTHER, Role::Read, open(job));
    let (iteration, result) = (rig.planning[0], rig.plan.clone());
    rig.event(Event::SplitsPlanned { iteration, result });
    assert!(matches!(rig.reply(first), Some(Ok(Reply::Client(_, _)))));
    let refusal = rig.reply(second).unwrap().unwrap_err();
    assert_eq!(refusal.code, Code::FailedPrecondition);
}

/// Tests a trainer that joins after tasks have begun, because the dispatcher was restarted while it planned
/// the splits. Meanwhile the worker of a running or finished task drains (C10.4).
#[test]
fn late_trainers_get_splits_of_drained_workers() {
    for has_finished in [false, true] {
        let mut rig = Rig::new();
        rig.plans_itself = false;
        let job = job(&mut rig, ExactlyOnce::whole(7));
        rig.send(READER, Role::Read, open(job));
        rig.restart();
        let (dies, lives) = (rig.worker(1, "dies:1"), rig.worker(2, "lives:2"));
        let (iteration, result) = (rig.planning[0], rig.plan.clone());
        rig.event(Event::SplitsPlanned { iteration, result });
        let (gone, kept) = (rig.tasks(dies)[0], rig.tasks(lives)[0]);
        assert_eq!(leased(&mut rig, dies, gone), [(0, 0)]);
        while has_finished && !leased(&mut rig, lives, kept).is_empty() {}
        if has_finished {
            let request = Request::FinishTask {
                task: gone,
                delivered: false,
                exhausted: true,
                cut_short: false,
            };
            rig.ask(dies, Role::Worker, request).unwrap();
        } else {
            leased(&mut rig, lives, kept);
        }
        rig.ask(dies, Role::Worker, Request::DrainWorker).unwrap();
        let client = rig.client(job);
        let mut exact = Exact {
            rig,
            job,
            client,
            dies,
            lives,
            gone,
            kept,
        };
        assert_eq!(exact.read_all(), [(0, 1)]);
        exact.check_complete();
    }
}

/// C16.2
#[test]
fn unfit_parameters_of_exact_jobs_are_refused() {
    let mut rig = Rig::new();
    let dataset = rig.register(None, facts()).unwrap();
    let good = || JobParameters {
        in_order: true,
        exactly_once: Some(ExactlyOnce::whole(7)),
        ..JobParameters::new(dataset.clone(), Policy::Dynamic)
    };
    let once = |step| {
        Some(ExactlyOnce {
            step,
            ..ExactlyOnce::whole(7)
        })
    };
    let bad = [
        (Some("shared"), good(), "each trainer open its own job"),
        (
            None,
            JobParameters {
                in_order: false,
                ..good()
            },
            "in_order = false",
        ),
        (
            None,
            JobParameters {
                policy: Policy::Off,
                ..good()
            },
            "policy `off`",
        ),
        (
            None,
            JobParameters {
                num_consumers: Some(2),
                ..good()
            },
            "neither consumers",
        ),
        (
            None,
            JobParameters {
                cross_trainer_cache: true,
                ..good()
            },
            "neither consumers",
        ),
        (
            None,
            JobParameters {
                exactly_once: once(0),
                ..good()
            },
            "at least 1, found 0",
        ),
    ];
    for (name, parameters, part) in bad {
        let error = rig.job(name, parameters).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(part), "{error}");
    }
    rig.job(None, good()).unwrap();
}

/// C16.2
#[test]
fn several_sources_are_refused() {
    let mut rig = Rig::new();
    let counted = || SourcePlan::Counted { splits: 3 };
    rig.plan = Ok(SplitPlan {
        sources: vec![counted(), counted()],
        seed: 0,
    });
    let job = job(&mut rig, ExactlyOnce::whole(7));
    let error = rig.ask(READER, Role::Read, open(job)).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.contains("has 2 sources"), "{error}");
    assert!(rig.machine.status().iterations.is_empty());
}

/// C16.3
#[test]
fn workers_get_the_selected_splits_only() {
    let mut rig = Rig::new();
    let once = ExactlyOnce {
        first: 2,
        step: 3,
        ..ExactlyOnce::whole(7)
    };
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::listed((0..10).map(|item| vec![item]))],
        seed: 0,
    });
    let job = job(&mut rig, once.clone());
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    let described = rig.ask(worker, Role::Worker, Request::DescribeTask { task });
    assert!(matches!(described, Ok(Reply::Task(def)) if def.exactly_once.as_ref() == Some(&once)));
    let request = lease(task, 0);
    let mut payloads = Vec::new();
    while let Ok(Reply::Splits {
        runs,
        plan,
        end: false,
        ..
    }) = rig.ask(worker, Role::Worker, request.clone())
    {
        for index in runs
            .iter()
            .flat_map(|run| run.first_index..run.first_index + run.count)
        {
            payloads.push((index, u64::from(plan.sources[0].payload(index)[0])));
        }
    }
    assert_eq!(payloads, [(0, 2), (1, 5), (2, 8)]);
    for (index, payload) in payloads {
        assert_eq!(once.source_index(index), payload);
    }
    assert!(rig.machine.state.tables.clients.contains(&client));
}

/// C16.10
#[test]
fn exact_jobs_alone_know_the_versions_of_files() {
    for is_exact in [true, false] {
        let mut rig = Rig::new();
        let files = (0..5).map(|file| (vec![file], [file + 1; 16]));
        rig.plan = Ok(SplitPlan {
            sources: vec![SourcePlan::listed_in_versions(files, Some(9))],
            seed: 0,
        });
        let dataset = rig.register(None, facts()).unwrap();
        let parameters = JobParameters {
            in_order: true,
            exactly_once: is_exact.then(|| ExactlyOnce {
                first: 1,
                step: 2,
                ..ExactlyOnce::whole(7)
            }),
            ..JobParameters::new(dataset, Policy::Dynamic)
        };
        let job = rig.job(None, parameters).unwrap();
        let worker = rig.worker(1, "one:1");
        let opened = rig.ask(READER, Role::Read, open(job));
        assert!(matches!(opened, Ok(Reply::Client(_, files)) if files == is_exact.then_some(9)));
        let task = rig.tasks(worker)[0];
        let Ok(Reply::Splits { plan, .. }) = rig.ask(worker, Role::Worker, lease(task, 0)) else {
            panic!("the task gets splits")
        };
        let versions: Vec<u8> = plan.sources[0]
            .versions(0..2)
            .iter()
            .map(|version| version[0])
            .collect();
        assert_eq!(versions, if is_exact { vec![2, 4] } else { vec![] });
    }
}

/// C16.11
#[test]
fn positions_among_other_files_are_refused() {
    for (saved, found, is_refused) in [
        (None, Some(9), false),
        (Some(9), None, false),
        (Some(9), Some(9), false),
        (Some(8), Some(9), true),
    ] {
        let mut rig = Rig::new();
        let files = (0..5).map(|file| (vec![file], [1; 16]));
        rig.plan = Ok(SplitPlan {
            sources: vec![SourcePlan::listed_in_versions(files, found)],
            seed: 0,
        });
        let once = ExactlyOnce {
            files: saved,
            ..ExactlyOnce::whole(7)
        };
        let job = job(&mut rig, once);
        let opened = rig.ask(READER, Role::Read, open(job));
        let refusal = opened
            .err()
            .filter(|error| error.code == Code::FailedPrecondition);
        assert_eq!(refusal.is_some(), is_refused, "{saved:?} {found:?}");
        if let Some(error) = refusal {
            assert!(error.message.contains("files were added, removed"), "{error}");
        }
    }
}

/// C16.1
#[test]
fn a_second_pass_is_refused() {
    let mut exact = Exact::new();
    let (dies, request) = (exact.dies, lease(exact.gone, 1));
    let error = exact.ask_worker(dies, request).unwrap_err();
    assert!(error.message.contains("pass 0"), "{error}");
}

pub(super) fn job(rig: &mut Rig, once: ExactlyOnce) -> JobId {
    let dataset = rig.register(None, facts()).unwrap();
    let parameters = JobParameters {
        in_order: true,
        exactly_once: Some(once),
        ..JobParameters::new(dataset, Policy::Dynamic)
    };
    rig.job(None, parameters).unwrap()
}

pub(super) fn lease(task: TaskId, repetition: u64) -> Request {
    let wanted = SplitsWanted {
        repetition,
        ..SplitsWanted::by(task)
    };
    wanted.into()
}

fn leased_runs(rig: &mut Rig, session: SessionId, task: TaskId) -> Vec<Run> {
    rig.lease_wanted(session, SplitsWanted::by(task)).unwrap().runs
}

/// Returns the index and the attempt of each split that a task is leased.
pub(super) fn leased(rig: &mut Rig, session: SessionId, task: TaskId) -> Vec<(u64, u32)> {
    splits_of(&leased_runs(rig, session, task))
}

/// Returns the index and the attempt of each split in runs.
pub(super) fn splits_of(runs: &[Run]) -> Vec<(u64, u32)> {
    let splits = runs.iter().flat_map(|run| {
        let indices = run.first_index..run.first_index + run.count;
        indices.map(|index| (index, run.attempt))
    });
    splits.collect()
}
