//! Tests of quotas: a process that asks for too much is refused, and no other process is (C15).

use millstream_link::Role;

use super::rig::{READER, Rig, facts, open};
use crate::dispatcher::{DispatcherConfig, Reply, Request};
use crate::error::{Code, Error};
use crate::id::{ClientId, DatasetId, JobId, SessionId};
use crate::job::{JobParameters, Policy};

const GREEDY: SessionId = SessionId(66);
const OTHER: SessionId = SessionId(77);

struct Quotas {
    rig: Rig,
    dataset: DatasetId,
}

impl Quotas {
    fn with(config: DispatcherConfig) -> Quotas {
        let mut rig = Rig::with(config);
        let dataset = rig.register(None, facts()).unwrap();
        Quotas { rig, dataset }
    }

    fn job(&mut self, session: SessionId, role: Role) -> Result<JobId, Error> {
        let parameters = JobParameters::new(self.dataset.clone(), Policy::Dynamic);
        let request = Request::CreateJob {
            name: None,
            parameters,
        };
        let reply = self.rig.ask(session, role, request)?;
        let Reply::Job(id) = reply else {
            panic!("{reply:?}")
        };
        Ok(id)
    }

    fn open(&mut self, session: SessionId, role: Role, job: JobId) -> Result<ClientId, Error> {
        let reply = self.rig.ask(session, role, open(job))?;
        let Reply::Client(id, _) = reply else {
            panic!("{reply:?}")
        };
        Ok(id)
    }

    fn read(&mut self, session: SessionId, role: Role) -> Result<ClientId, Error> {
        let job = self.job(session, role)?;
        self.open(session, role, job)
    }
}

fn assert_refused(result: Result<impl std::fmt::Debug, Error>, part: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
    assert!(error.message.contains(part), "{error}");
}

/// C15.1
#[test]
fn a_greedy_process_is_refused_alone() {
    let mut all = Quotas::with(DispatcherConfig {
        iterations_open_per_process_max: 3,
        ..DispatcherConfig::default()
    });
    let first = all.read(GREEDY, Role::Read).unwrap();
    for _ in 1..3 {
        all.read(GREEDY, Role::Read).unwrap();
    }
    assert_refused(all.read(GREEDY, Role::Read), "3 iterations that are not finished");
    let theirs = all.job(OTHER, Role::Read).unwrap();
    all.open(OTHER, Role::Read, theirs).unwrap();
    // Joining an iteration of another process does not use the quota.
    all.open(GREEDY, Role::Read, theirs).unwrap();
    all.rig
        .ask(GREEDY, Role::Read, Request::Release { client: first })
        .unwrap();
    all.read(GREEDY, Role::Read)
        .expect("an unread iteration makes room");
    assert_refused(all.read(GREEDY, Role::Read), "the most for one process");
}

/// C15.1
#[test]
fn planning_counts_as_unfinished() {
    let mut all = Quotas::with(DispatcherConfig {
        iterations_open_per_process_max: 1,
        ..DispatcherConfig::default()
    });
    all.rig.plans_itself = false;
    let job = all.job(GREEDY, Role::Read).unwrap();
    all.rig.send(GREEDY, Role::Read, open(job));
    assert_refused(all.read(GREEDY, Role::Read), "the most for one process");
}

/// C15.2
#[test]
fn unread_jobs_make_room_for_new_ones() {
    let mut all = Quotas::with(DispatcherConfig {
        jobs_per_process_max: 2,
        ..DispatcherConfig::default()
    });
    let read = all.job(GREEDY, Role::Read).unwrap();
    all.open(GREEDY, Role::Read, read).unwrap();
    for _ in 0..100 {
        all.job(GREEDY, Role::Read).unwrap();
    }
    assert_eq!(all.rig.machine.status().jobs.len(), 2);
    let last = all.job(GREEDY, Role::Read).unwrap();
    all.open(GREEDY, Role::Read, last).unwrap();
    assert_refused(all.job(GREEDY, Role::Read), "reads 2 jobs");
    all.job(OTHER, Role::Read).unwrap();
}

/// C15.3
#[test]
fn readers_leave_half_of_everything_to_other_roles() {
    let mut all = Quotas::with(DispatcherConfig {
        iterations_open_max: 4,
        ..DispatcherConfig::default()
    });
    for session in 100..102 {
        all.read(SessionId(session), Role::Read).unwrap();
    }
    assert_refused(
        all.read(OTHER, Role::Read),
        "role `read` have 2 unfinished iterations",
    );
    for session in 200..202 {
        all.read(SessionId(session), Role::Submit).unwrap();
    }
    assert_eq!(all.rig.machine.status().iterations.len(), 4);
    assert_refused(all.read(OTHER, Role::Submit), "has 4 unfinished iterations");

    let mut all = Quotas::with(DispatcherConfig {
        sessions_max: 6,
        ..DispatcherConfig::default()
    });
    // The process that registered the dataset has another role, and is one of the six.
    for session in 100..103 {
        all.job(SessionId(session), Role::Read).unwrap();
    }
    assert_refused(all.job(GREEDY, Role::Read), "role `read` have 3 processes");
    all.rig.worker(1, "one:1");
    all.job(OTHER, Role::Submit).unwrap();

    let mut all = Quotas::with(DispatcherConfig {
        jobs_max: 4,
        ..DispatcherConfig::default()
    });
    for session in 100..102 {
        all.job(SessionId(session), Role::Read).unwrap();
    }
    assert_refused(all.job(OTHER, Role::Read), "role `read` have 2 jobs");
    all.job(OTHER, Role::Submit).unwrap();
}

/// C15.3
#[test]
fn readers_that_are_gone_make_room_for_readers() {
    let mut all = Quotas::with(DispatcherConfig {
        iterations_open_max: 8,
        ..DispatcherConfig::default()
    });
    for session in [100, 101, 101, 102] {
        let client = all.read(SessionId(session), Role::Read).unwrap();
        if session != 102 {
            let request = Request::Release { client };
            all.rig.ask(SessionId(session), Role::Read, request).unwrap();
        }
    }
    let left = |all: &Quotas| {
        let open = all.rig.machine.status().iterations;
        open.iter().map(|row| row.id.0).collect::<Vec<_>>()
    };
    assert_eq!(left(&all), [2000, 2001, 2002, 2003]);
    all.read(OTHER, Role::Read).unwrap();
    assert_eq!(
        left(&all),
        [2000, 2002, 2003, 2004],
        "the first unread iteration of the process with the most"
    );
}

/// C15.1
#[test]
fn a_process_has_a_bounded_number_of_clients() {
    let mut all = Quotas::with(DispatcherConfig {
        clients_per_process_max: 2,
        ..DispatcherConfig::default()
    });
    let job = all.job(OTHER, Role::Read).unwrap();
    let first = all.open(GREEDY, Role::Read, job).unwrap();
    all.open(GREEDY, Role::Read, job).unwrap();
    assert_refused(all.open(GREEDY, Role::Read, job), "2 clients");
    all.open(OTHER, Role::Read, job).unwrap();
    all.rig
        .ask(GREEDY, Role::Read, Request::Release { client: first })
        .unwrap();
    all.open(GREEDY, Role::Read, job).unwrap();
}

/// C15.4
#[test]
fn quotas_survive_a_restart() {
    let mut all = Quotas::with(DispatcherConfig {
        iterations_open_per_process_max: 1,
        jobs_per_process_max: 2,
        ..DispatcherConfig::default()
    });
    all.read(READER, Role::Read).unwrap();
    all.rig.restart();
    assert_refused(all.read(READER, Role::Read), "the most for one process");
}
