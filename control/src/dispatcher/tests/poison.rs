//! Tests of poison splits, whose workers die while they read them (C16.7 to C16.9).

use millstream_link::{Role, TicketKey};

use super::people::acknowledge;
use super::rig::{Rig, SplitsWanted, facts};
use crate::dispatcher::{
    ClientPush, Departure, Event, IterationStatus, Phase, Request, Run, WorkerRegistration,
};
use crate::error::{Code, Error};
use crate::exactly_once::{ExactlyOnce, PoisonLimits};
use crate::id::{ClientId, JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{SourcePlan, SplitPlan};
use crate::split::Seen;
use crate::whereabouts::Whereabouts;

/// An exactly-once job with one reader, whose workers die one after the other.
struct Poisoned {
    rig: Rig,
    client: ClientId,
    next: u64,
}

impl Poisoned {
    fn new(poison: PoisonLimits) -> Poisoned {
        let mut rig = Rig::new();
        let job = exact_job(&mut rig, poison).unwrap();
        let client = rig.client(job);
        Poisoned { rig, client, next: 1 }
    }

    /// Starts a worker.
    fn start(&mut self) -> SessionId {
        self.next += 1;
        let (session, address) = (self.next + 200, format!("worker:{}", self.next));
        self.rig.worker(session, &address)
    }

    /// Leases splits to the newest task of a worker until it gets none, as a task that reads each split to
    /// its end. Returns the splits of each lease.
    fn read(&mut self, worker: SessionId, leases: usize) -> Vec<Vec<u64>> {
        let task = self.newest(worker);
        (0..leases).map(|_| indices(&self.lease(worker, task))).collect()
    }

    fn newest(&self, worker: SessionId) -> TaskId {
        *self.rig.tasks(worker).last().expect("the worker has a task")
    }

    fn lease(&mut self, worker: SessionId, task: TaskId) -> Vec<Run> {
        self.try_lease(worker, task, true).unwrap().0
    }

    fn try_lease(
        &mut self,
        worker: SessionId,
        task: TaskId,
        is_idle: bool,
    ) -> Result<(Vec<Run>, bool), Error> {
        let wanted = SplitsWanted {
            want: 1,
            is_idle,
            ..SplitsWanted::by(task)
        };
        let answer = self.rig.lease_wanted(worker, wanted)?;
        Ok((answer.runs, answer.end))
    }

    /// Ends a worker's process, and lets the reader acknowledge the removal of its tasks.
    fn kill(&mut self, worker: SessionId, others: &[SessionId]) {
        let departure = Departure::Reset;
        self.rig.event(Event::Disconnected {
            session: worker,
            departure,
        });
        for _ in 0..3 {
            self.rig.pass_half(others, &[self.client]);
        }
        self.acknowledge_all();
    }

    fn acknowledge_all(&mut self) {
        let removed = self.rig.client_pushes.iter().filter_map(|(_, push)| {
            if let ClientPush::TaskRemoved(removed) = push {
                Some(removed.task)
            } else {
                None
            }
        });
        for task in removed.collect::<Vec<_>>() {
            acknowledge(&mut self.rig, self.client, task, Seen::default());
        }
    }

    /// Lets two workers die that held the splits 0 to 2, so that these splits are suspects.
    fn two_deaths(&mut self) {
        for _ in 0..2 {
            let worker = self.start();
            assert_eq!(self.read(worker, 3).concat(), [0, 1, 2]);
            self.kill(worker, &[]);
        }
    }

    fn status(&self) -> IterationStatus {
        self.rig.machine.status().iterations[0].clone()
    }

    fn failures(&self) -> Vec<String> {
        let pushes = self.rig.client_pushes.iter();
        let failed = pushes.filter_map(|(_, push)| {
            if let ClientPush::TaskFailed { message, .. } = push {
                Some(message.clone())
            } else {
                None
            }
        });
        failed.collect()
    }
}

/// C16.7, C16.9
#[test]
fn the_third_death_ends_the_job() {
    let mut poisoned = Poisoned::new(PoisonLimits::default());
    poisoned.two_deaths();
    let worker = poisoned.start();
    assert_eq!(poisoned.read(worker, 1), [[0]]);
    assert_eq!(poisoned.status().phase, Phase::Running);
    poisoned.kill(worker, &[]);
    assert_eq!(poisoned.status().phase, Phase::Finished);
    let failures = poisoned.failures();
    assert_eq!(failures.len(), 1);
    for part in [
        "split 0 of source 0 (data/0) ends the process of its worker",
        "3 workers died while they held it (worker:2, worker:3, worker:4)",
        "max_skips",
    ] {
        assert!(failures[0].contains(part), "{failures:?}");
    }
    let next = poisoned.start();
    assert!(
        poisoned.rig.tasks(next).is_empty(),
        "no further worker reads the job"
    );
}

/// C16.8
#[test]
fn suspects_are_read_alone() {
    let mut poisoned = Poisoned::new(PoisonLimits::default());
    poisoned.two_deaths();
    let worker = poisoned.start();
    let task = poisoned.newest(worker);
    let busy = poisoned.try_lease(worker, task, false).unwrap();
    assert_eq!(
        busy,
        (vec![], false),
        "a task that may read a split gets no suspect and no end"
    );
    assert_eq!(poisoned.read(worker, 1), [[0]]);
    assert_eq!(poisoned.try_lease(worker, task, false).unwrap(), (vec![], false));
    assert_eq!(poisoned.read(worker, 2), [[1], [2]], "one after the other");
    assert_eq!(poisoned.try_lease(worker, task, false).unwrap(), (vec![], false));
    let end = poisoned.try_lease(worker, task, true).unwrap();
    assert_eq!(end, (vec![], true), "the task has read the last suspect");
    poisoned.kill(worker, &[]);
    let last = poisoned.start();
    assert_eq!(poisoned.read(last, 2), [[0], [1]], "no split reached its limit");
    poisoned.kill(last, &[]);
    let failures = poisoned.failures();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].starts_with("split 1 of source 0"), "{failures:?}");
}

/// C16.7
#[test]
fn only_deaths_count() {
    let mut poisoned = Poisoned::new(PoisonLimits::default());
    for way in ["leaves", "drains", "says goodbye", "restarts in its process"].repeat(2) {
        let session = poisoned.next + 300;
        poisoned.next += 1;
        register(&mut poisoned.rig, session, "same:1");
        let worker = SessionId(session);
        assert_eq!(poisoned.read(worker, 1), [[0]], "{way}");
        let (departure, silent) = (Departure::Goodbye, Departure::Reset);
        match way {
            "leaves" => drop(poisoned.rig.ask(worker, Role::Worker, Request::LeaveWorker)),
            "drains" => {
                poisoned
                    .rig
                    .ask(worker, Role::Worker, Request::DrainWorker)
                    .unwrap();
                poisoned.rig.event(Event::Disconnected {
                    session: worker,
                    departure: silent,
                });
                (0..3).for_each(|_| poisoned.rig.pass_half(&[], &[poisoned.client]));
            }
            "says goodbye" => poisoned.rig.event(Event::Disconnected {
                session: worker,
                departure,
            }),
            _ => register(&mut poisoned.rig, session + 50, "same:1"),
        }
        poisoned.acknowledge_all();
        if way == "restarts in its process" {
            let again = SessionId(session + 50);
            poisoned
                .rig
                .ask(again, Role::Worker, Request::LeaveWorker)
                .unwrap();
            poisoned.acknowledge_all();
        }
    }
    let worker = poisoned.start();
    let task = poisoned.newest(worker);
    assert_eq!(poisoned.lease(worker, task)[0].deaths, 0);
}

/// C16.7, C1.6
#[test]
fn deaths_survive_a_restart() {
    let mut poisoned = Poisoned::new(PoisonLimits::default());
    poisoned.two_deaths();
    poisoned.rig.restart();
    let worker = poisoned.start();
    assert_eq!(poisoned.read(worker, 1), [[0]]);
    poisoned.rig.restart();
    poisoned.rig.pass_half(&[worker], &[poisoned.client]);
    poisoned.kill(worker, &[]);
    assert_eq!(poisoned.failures().len(), 1, "the suspect is still known");
}

/// C16.9
#[test]
fn a_job_skips_as_many_splits_as_allowed() {
    let limits = PoisonLimits {
        max_deaths: 2,
        max_skips: 1,
    };
    let mut poisoned = Poisoned::new(limits);
    for leased in [vec![0, 1], vec![0]] {
        let worker = poisoned.start();
        assert_eq!(poisoned.read(worker, leased.len()).concat(), leased);
        poisoned.kill(worker, &[]);
    }
    assert_eq!(poisoned.failures(), Vec::<String>::new());
    assert_eq!(poisoned.status().skipped.len(), 1);
    poisoned.rig.restart();
    let worker = poisoned.start();
    let task = poisoned.newest(worker);
    let runs = poisoned.lease(worker, task);
    assert_eq!(
        (runs[0].first_index, runs[0].skipped),
        (0, true),
        "the reader is told"
    );
    assert_eq!(poisoned.read(worker, 1), [[1]]);
    poisoned.kill(worker, &[]);
    assert_eq!(poisoned.status().phase, Phase::Finished);
    assert!(
        poisoned.failures()[0]
            .contains("raise max_skips = 1, which has been used up (splits skipped so far: 1)")
    );
}

/// C16.8
#[test]
fn suspects_of_two_jobs_do_not_meet() {
    let mut poisoned = Poisoned::new(PoisonLimits::default());
    let other = exact_job(&mut poisoned.rig, PoisonLimits::default()).unwrap();
    let second = poisoned.rig.client(other);
    for _ in 0..2 {
        let worker = poisoned.start();
        let tasks = last_tasks(&poisoned.rig, worker);
        for task in tasks {
            assert_eq!(indices(&poisoned.lease(worker, task)), [0]);
        }
        poisoned.kill(worker, &[]);
        poisoned.rig.pass_half(&[], &[poisoned.client, second]);
        acknowledge_both(&mut poisoned, second);
    }
    let worker = poisoned.start();
    let [one, two] = last_tasks(&poisoned.rig, worker);
    assert_eq!(indices(&poisoned.lease(worker, one)), [0]);
    let waits = (vec![], false);
    assert_eq!(poisoned.try_lease(worker, two, true).unwrap(), waits);
    poisoned.rig.pass(11, &[worker], &[poisoned.client, second]);
    assert_eq!(indices(&poisoned.lease(worker, two)), [0], "the wait is bounded");
}

/// C16.7, C16.9
#[test]
fn unfit_poison_limits_are_refused() {
    let mut rig = Rig::new();
    for (max_deaths, max_skips, part) in [
        (1, 0, "expected 2 to 16, found 1"),
        (17, 0, "expected 2 to 16, found 17"),
        (3, 1025, "at most 1024, found 1025"),
    ] {
        let error = exact_job(
            &mut rig,
            PoisonLimits {
                max_deaths,
                max_skips,
            },
        )
        .unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(part), "{error}");
    }
    assert!(exact_job(&mut rig, PoisonLimits::default()).is_ok());
}

fn exact_job(rig: &mut Rig, poison: PoisonLimits) -> Result<JobId, Error> {
    rig.plan = Ok(SplitPlan {
        sources: vec![SourcePlan::listed(
            (0..100).map(|file| format!("data/{file}").into_bytes()),
        )],
        seed: 0,
    });
    let dataset = rig.register(None, facts()).unwrap();
    let once = ExactlyOnce {
        poison,
        ..ExactlyOnce::whole(7)
    };
    let parameters = JobParameters {
        in_order: true,
        exactly_once: Some(once),
        ..JobParameters::new(dataset, Policy::Dynamic)
    };
    rig.job(None, parameters)
}

/// Registers a worker of one process, whichever session it has.
fn register(rig: &mut Rig, session: u64, address: &str) {
    let registration = WorkerRegistration {
        address: address.to_owned(),
        tags: vec![],
        ticket_key: TicketKey::from_bytes([1; 32]),
        version: "1".to_owned(),
        whereabouts: Whereabouts {
            host: Some(1),
            process: Some(1),
        },
        local_socket: None,
    };
    let request = Request::RegisterWorker(registration);
    rig.ask(SessionId(session), Role::Worker, request).unwrap();
}

fn last_tasks(rig: &Rig, worker: SessionId) -> [TaskId; 2] {
    *rig.tasks(worker).last_chunk().expect("a task of each job")
}

fn acknowledge_both(poisoned: &mut Poisoned, second: ClientId) {
    let removed = poisoned.rig.client_pushes.iter().filter_map(|(to, push)| {
        if let ClientPush::TaskRemoved(removed) = push
            && *to == second
        {
            Some(removed.task)
        } else {
            None
        }
    });
    for task in removed.collect::<Vec<_>>() {
        acknowledge(&mut poisoned.rig, second, task, Seen::default());
    }
}

fn indices(runs: &[Run]) -> Vec<u64> {
    let each = |run: &Run| run.first_index..run.first_index + run.count;
    runs.iter().flat_map(each).collect()
}
