//! Tests of lifetimes: unused entries are removed after their lifetime, not before, and do not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_link::Role;
use millstream_testkit::rounds;
use proptest::prelude::*;

use super::rig::{READER, Rig, facts, open};
use crate::dispatcher::{ClientPush, DispatcherConfig, Phase, Reply, Request, StopReason, WorkerPush};
use crate::error::Code;
use crate::id::{ClientId, DatasetId, IterationId, JobId, SessionId};
use crate::job::{Abandoned, JobParameters, Policy};
use crate::whereabouts::Whereabouts;

const JOB_S: u64 = 20;
const DATASET_S: u64 = 40;
/// The session of a process that registers a dataset and disappears.
const PASSER_BY: SessionId = SessionId(77);

fn short() -> DispatcherConfig {
    DispatcherConfig {
        job_gc_check_interval: Duration::ZERO,
        job_gc_timeout: Some(Duration::from_secs(JOB_S)),
        dataset_gc_timeout: Some(Duration::from_secs(DATASET_S)),
        client_timeout: Duration::from_secs(10),
        ..DispatcherConfig::default()
    }
}

fn counts(rig: &Rig) -> (u64, u64, u64) {
    let counts = rig.machine.status().counts;
    (counts.datasets, counts.jobs, counts.iterations)
}

fn release(rig: &mut Rig, client: ClientId) {
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
}

fn pass(rig: &mut Rig, job: JobId, repetition: u64) -> ClientId {
    let reply = rig.ask(
        READER,
        Role::Read,
        Request::OpenIteration {
            job,
            repetition,
            consumer: None,
            whereabouts: Whereabouts::default(),
        },
    );
    let Ok(Reply::Client(client, _)) = reply else {
        panic!("{reply:?}")
    };
    client
}

/// C3.6, C3.8, C3.9
#[test]
fn abandoned_iterations_end_and_names_are_reusable() {
    let mut rig = Rig::with(short());
    let worker = rig.worker(1, "one:1");
    let dataset = rig.register(Some("data"), facts()).unwrap();
    let parameters = JobParameters::new(dataset, Policy::Off);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let job = rig.job(Some("test"), parameters.clone()).unwrap();
        let client = rig.client(job);
        rig.pass(2 * JOB_S, &[worker], &[client]);
        release(&mut rig, client);
        rig.pass(JOB_S, &[worker], &[]);
        assert_eq!(counts(&rig), (1, 1, 1), "not before");
        rig.pass(1, &[worker], &[]);
        assert_eq!(counts(&rig), (1, 0, 0));
        let task = *rig.tasks(worker).last().unwrap();
        let stopped = WorkerPush::Stop {
            task,
            reason: StopReason::Abandoned,
        };
        assert_eq!(rig.worker_pushes.last().unwrap(), &(worker, stopped));
        rig.restart();
        assert_eq!(counts(&rig), (1, 0, 0), "a collected iteration stays collected");
        let error = rig.ask(READER, Role::Read, open(job)).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert!(seen.insert((job, task)), "as new");
    }
}

/// C3.6
#[test]
fn an_unfinished_dynamic_iteration_waits_for_its_reader() {
    for gc_dynamic_sharding_jobs in [false, true] {
        let mut rig = Rig::with(DispatcherConfig {
            gc_dynamic_sharding_jobs,
            ..short()
        });
        let job = rig.any_job(Policy::Dynamic);
        let client = rig.client(job);
        release(&mut rig, client);
        rig.pass(10 * JOB_S, &[], &[]);
        let left = u64::from(!gc_dynamic_sharding_jobs);
        assert_eq!(counts(&rig).2, left);
        assert_eq!(counts(&rig).1, left, "a job stays with its iterations");
    }
}

/// C3.6
#[test]
fn iterations_left_for_good_end_as_configured() {
    for (abandoned, at_once) in [(Abandoned::Ends, 0), (Abandoned::Expires, 1)] {
        let mut rig = Rig::with(short());
        let worker = rig.worker(1, "one:1");
        let dataset = rig.register(None, facts()).unwrap();
        let parameters = JobParameters {
            abandoned,
            ..JobParameters::new(dataset, Policy::Dynamic)
        };
        let job = rig.job(None, parameters).unwrap();
        let (first, second) = (rig.client(job), rig.client(job));
        let task = rig.tasks(worker)[0];
        release(&mut rig, first);
        assert_eq!(counts(&rig).2, 1, "another client reads the iteration");
        release(&mut rig, second);
        assert_eq!(counts(&rig).2, at_once);
        let next = pass(&mut rig, job, 0);
        let begun = rig.tasks(worker).len();
        assert_eq!(
            begun,
            2 - usize::from(at_once == 1),
            "a late reader continues or begins again"
        );
        release(&mut rig, next);
        rig.pass(JOB_S + 1, &[worker], &[]);
        assert_eq!(counts(&rig).2, 0);
        let stop = WorkerPush::Stop {
            task,
            reason: StopReason::Abandoned,
        };
        assert!(rig.worker_pushes.contains(&(worker, stop)), "{abandoned}");
    }
}

/// C3.6
#[test]
fn an_iteration_nobody_could_join_is_collected() {
    let mut rig = Rig::with(DispatcherConfig {
        clients_max: 0,
        ..short()
    });
    let job = rig.any_job(Policy::Dynamic);
    let error = rig.ask(READER, Role::Read, open(job)).unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
    assert_eq!(counts(&rig).2, 1);
    rig.pass(JOB_S + 1, &[], &[]);
    assert_eq!(counts(&rig).2, 0);
}

/// C3.5, C3.7
#[test]
fn a_finished_iteration_ends_its_late_readers() {
    let mut rig = Rig::with(short());
    let worker = rig.worker(1, "one:1");
    let job = rig.any_job(Policy::Dynamic);
    let first = rig.client(job);
    let task = rig.tasks(worker)[0];
    while !rig.lease(worker, task).unwrap().1 {}
    rig.finish(worker, task);
    release(&mut rig, first);
    for _ in 0..3 {
        rig.pass(JOB_S, &[worker], &[]);
        let late = rig.client(job);
        rig.ask(READER, Role::Read, Request::Attach { client: late })
            .unwrap();
        let (to, push) = rig.client_pushes.last().unwrap();
        assert_eq!(*to, late);
        assert!(matches!(push, ClientPush::Snapshot(snapshot) if snapshot.finished));
        rig.pass(2 * JOB_S, &[worker], &[late]);
        release(&mut rig, late);
    }
    // The job stays, because a client asks for another repetition.
    rig.pass(JOB_S - 1, &[worker], &[]);
    let other = pass(&mut rig, job, 1);
    rig.pass(2, &[worker], &[other]);
    assert_eq!(rig.machine.status().iterations.len(), 1, "pass 0 is gone");
    let again = rig.client(job);
    assert_eq!(rig.tasks(worker).len(), 3, "it is read again, by {again}");
}

/// C3.7
#[test]
fn a_finished_pass_waits_for_slower_readers() {
    let mut rig = Rig::with(short());
    let worker = rig.worker(1, "one:1");
    let job = rig.any_job(Policy::Off);
    let behind = rig.client(job);
    let ahead = pass(&mut rig, job, 1);
    let task = rig.tasks(worker)[1];
    rig.finish(worker, task);
    release(&mut rig, ahead);
    rig.pass(3 * JOB_S, &[worker], &[behind]);
    let phases = |rig: &Rig| -> Vec<Phase> {
        let iterations = rig.machine.status().iterations;
        iterations.iter().map(|row| row.phase).collect()
    };
    assert_eq!(phases(&rig), [Phase::Running, Phase::Finished]);
    release(&mut rig, behind);
    rig.pass(JOB_S + 1, &[worker], &[]);
    assert_eq!(phases(&rig), []);
}

/// C3.9
#[test]
fn never_collects_nothing_and_changes_nothing_else() {
    let mut rig = Rig::with(DispatcherConfig {
        job_gc_timeout: None,
        dataset_gc_timeout: None,
        worker_timeout: Duration::from_secs(60),
        ..short()
    });
    rig.worker(1, "one:1");
    let job = rig.any_job(Policy::Off);
    rig.client(job);
    rig.pass(1000, &[], &[]);
    assert_eq!(counts(&rig), (1, 1, 1));
    let status = rig.machine.status();
    assert_eq!(status.counts.clients, 0, "C4.3: silent clients are released");
    assert!(status.workers.is_empty(), "C7.7: dead workers are forgotten");
}

/// C7.7
#[test]
fn a_dead_worker_is_shown_for_its_lifetime() {
    let mut rig = Rig::with(DispatcherConfig {
        worker_timeout: Duration::from_secs(60),
        ..short()
    });
    let dies = rig.worker(1, "one:1");
    let lives = rig.worker(2, "two:2");
    let job = rig.any_job(Policy::Off);
    let client = rig.client(job);
    let settled = rig.tasks(dies)[0];
    rig.finish(dies, settled);
    rig.pass(120, &[lives], &[client]);
    assert_eq!(
        rig.machine.status().workers.len(),
        2,
        "its task is known to be done"
    );
    let task = rig.tasks(lives)[0];
    rig.finish(lives, task);
    rig.pass(1, &[lives], &[client]);
    assert_eq!(rig.machine.status().workers.len(), 1);
    rig.restart();
    assert_eq!(rig.machine.status().workers.len(), 1);
}

/// C1.10
#[test]
fn a_silent_process_is_forgotten_with_its_answers() {
    let mut rig = Rig::with(short());
    rig.worker(1, "one:1");
    let register = |rig: &mut Rig, session| {
        let request = Request::RegisterDataset {
            id: None,
            definition: vec![],
            facts: facts(),
        };
        rig.ask(session, Role::Submit, request).unwrap();
    };
    register(&mut rig, PASSER_BY);
    register(&mut rig, READER);
    assert_eq!(rig.machine.state.tables.sessions.len(), 2);
    rig.pass(11, &[], &[]);
    assert!(!rig.machine.state.tables.sessions.contains(&PASSER_BY));
    assert!(
        rig.machine.state.tables.sessions.contains(&READER),
        "it says that it lives"
    );
    rig.restart();
    assert!(!rig.machine.state.tables.sessions.contains(&PASSER_BY));
}

/// C2.5
#[test]
fn idle_named_datasets_make_room_idlest_first() {
    let mut rig = Rig::with(DispatcherConfig {
        datasets_max: 3,
        ..short()
    });
    let used = rig.register(Some("used"), facts()).unwrap();
    let job = rig.job(None, JobParameters::new(used, Policy::Off)).unwrap();
    let client = rig.client(job);
    for id in ["older", "newer"] {
        rig.register(Some(id), facts()).unwrap();
        rig.pass(1, &[], &[client]);
    }
    // A requested dataset has its full lifetime again.
    rig.register(Some("older"), facts()).unwrap();
    let error = rig.register(None, facts()).unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
    rig.pass(2 * DATASET_S, &[], &[client]);
    assert_eq!(counts(&rig).0, 3, "no dataset goes while there is room");
    rig.register(Some("fourth"), facts()).unwrap();
    let ids: Vec<String> = rig
        .machine
        .status()
        .datasets
        .iter()
        .map(|row| row.id.to_string())
        .collect();
    assert_eq!(ids, ["fourth", "older", "used"]);
}

/// One iteration of the model.
#[derive(Debug, Clone)]
struct ModelIteration {
    job: JobId,
    pass: u64,
    clients: BTreeSet<ClientId>,
    unread_since: u64,
    finished: bool,
}

/// The naive model: plain lists, scanned from end to end at every tick.
#[derive(Debug, Default)]
struct Model {
    iterations: BTreeMap<IterationId, ModelIteration>,
    /// The facts of each job: its dataset, whether it is dynamic, the handling of an abandoned iteration,
    /// and its last request.
    jobs: BTreeMap<JobId, (DatasetId, bool, Abandoned, u64)>,
    /// The state of each dataset: whether its owner is gone, or `None` without an owner, and the time since
    /// which it is idle.
    datasets: BTreeMap<DatasetId, (Option<bool>, u64)>,
}

impl Model {
    fn tick(&mut self, now: u64) {
        let all = self.iterations.clone();
        self.iterations.retain(|_, row| {
            let late = row.clients.is_empty() && now - row.unread_since > 2 * JOB_S;
            let behind = all
                .values()
                .any(|other| other.job == row.job && other.pass < row.pass && !other.clients.is_empty());
            let (_, dynamic, abandoned, _) = self.jobs[&row.job];
            let waits = dynamic && abandoned == Abandoned::Waits;
            !(late && if row.finished { !behind } else { !waits })
        });
        let (iterations, datasets) = (&self.iterations, &mut self.datasets);
        self.jobs.retain(|id, (dataset, .., used)| {
            let stays = iterations.values().any(|row| row.job == *id) || now - *used <= 2 * JOB_S;
            if !stays {
                datasets.get_mut(dataset).unwrap().1 = now;
            }
            stays
        });
        let jobs = &self.jobs;
        self.datasets.retain(|id, (gone, idle)| {
            let read = jobs.values().any(|(dataset, ..)| dataset == id);
            read || *gone != Some(true) || now - *idle <= 2 * DATASET_S
        });
    }

    fn restart(&mut self, now: u64) {
        self.iterations
            .values_mut()
            .for_each(|row| row.unread_since = now);
        self.jobs.values_mut().for_each(|job| job.3 = now);
        self.datasets.values_mut().for_each(|dataset| dataset.1 = now);
    }

    fn check(&self, rig: &Rig) {
        let status = rig.machine.status();
        assert!(
            status
                .iterations
                .iter()
                .map(|row| row.id)
                .collect::<BTreeSet<_>>()
                .iter()
                .eq(self.iterations.keys())
        );
        assert!(status.jobs.iter().map(|row| row.id).eq(self.jobs.keys().copied()));
        assert!(
            status.datasets.iter().map(|row| &row.id).eq(self.datasets.keys()),
            "{:?} {:?}",
            status.datasets,
            self.datasets
        );
    }

    fn clients(&self) -> Vec<ClientId> {
        self.iterations
            .values()
            .flat_map(|row| row.clients.iter().copied())
            .collect()
    }
}

/// Returns the number of half seconds that have passed.
fn ticks(rig: &Rig) -> u64 {
    u64::try_from(rig.now.as_millis()).unwrap() / 500
}

/// Performs one random step. Time passes in half seconds.
fn happen(rig: &mut Rig, model: &mut Model, op: u8, choice: u64) {
    match op {
        0 => somebody_registers(rig, model, choice),
        1 => somebody_asks_for_a_job(rig, model, choice),
        2 | 3 => somebody_joins(rig, model, choice),
        4 | 5 => somebody_leaves(rig, model, choice),
        6 => an_iteration_finishes(rig, model),
        7 => {
            rig.restart();
            model.restart(ticks(rig));
        }
        _ => {
            for _ in 0..choice % 40 {
                let clients = model.clients();
                rig.pass_half(&[SessionId(1)], &clients);
                model.tick(ticks(rig));
            }
        }
    }
}

fn somebody_registers(rig: &mut Rig, model: &mut Model, choice: u64) {
    let now = ticks(rig);
    // Each process connects once, and is forgotten long before its dataset is.
    let owner = if choice.is_multiple_of(2) {
        SessionId(1000 * (1 + now) + choice)
    } else {
        READER
    };
    let name = choice.is_multiple_of(3).then(|| format!("set-{}", choice % 2));
    let id = name.map(|name| DatasetId::new(&name).unwrap());
    let gone = id.is_none().then_some(owner != READER);
    let request = Request::RegisterDataset {
        id,
        definition: vec![],
        facts: facts(),
    };
    let Ok(Reply::Dataset(id)) = rig.ask(owner, Role::Submit, request) else {
        panic!("no dataset")
    };
    model.datasets.entry(id).or_insert((gone, now)).1 = now;
}

fn somebody_asks_for_a_job(rig: &mut Rig, model: &mut Model, choice: u64) {
    let nth = usize::try_from(choice % 4).unwrap();
    let Some(dataset) = model.datasets.keys().nth(nth).cloned() else {
        return;
    };
    let dynamic = choice.is_multiple_of(2);
    let policy = if dynamic { Policy::Dynamic } else { Policy::Off };
    let abandoned =
        [Abandoned::Waits, Abandoned::Expires, Abandoned::Ends][usize::try_from(choice / 5 % 3).unwrap()];
    let name = (choice % 5 < 3).then(|| format!("{dataset} {policy} {abandoned}"));
    let parameters = JobParameters {
        abandoned,
        ..JobParameters::new(dataset.clone(), policy)
    };
    let id = rig.job(name.as_deref(), parameters).unwrap();
    model.jobs.insert(id, (dataset, dynamic, abandoned, ticks(rig)));
}

fn somebody_joins(rig: &mut Rig, model: &mut Model, choice: u64) {
    let (now, nth) = (ticks(rig), usize::try_from(choice % 3).unwrap());
    let Some(job) = model.jobs.keys().nth(nth).copied() else {
        return;
    };
    let repetition = choice % 4;
    let client = pass(rig, job, repetition);
    model.jobs.get_mut(&job).unwrap().3 = now;
    let iteration = rig.machine.state.tables.clients.get(&client).unwrap().iteration;
    let row = model.iterations.entry(iteration).or_insert(ModelIteration {
        job,
        pass: repetition,
        clients: BTreeSet::new(),
        unread_since: now,
        finished: false,
    });
    row.clients.insert(client);
}

fn somebody_leaves(rig: &mut Rig, model: &mut Model, choice: u64) {
    let clients = model.clients();
    let nth = usize::try_from(choice).unwrap() % clients.len().max(1);
    let Some(client) = clients.get(nth) else {
        return;
    };
    release(rig, *client);
    let now = ticks(rig);
    let jobs = &model.jobs;
    model.iterations.retain(|_, row| {
        if row.clients.remove(client) {
            row.unread_since = now;
            return row.finished || !row.clients.is_empty() || jobs[&row.job].2 != Abandoned::Ends;
        }
        true
    });
}

fn an_iteration_finishes(rig: &mut Rig, model: &mut Model) {
    let running = model.iterations.iter_mut().filter(|(_, row)| !row.finished);
    let Some((id, row)) = running.take(3).last() else {
        return;
    };
    for task in rig.machine.state.tables.tasks.of(*id) {
        while rig.lease(SessionId(1), task).is_ok_and(|(_, end)| !end) {}
        rig.finish(SessionId(1), task);
    }
    row.finished = true;
    if row.clients.is_empty() {
        row.unread_since = ticks(rig);
    }
}

proptest! {
    #![proptest_config(rounds(64))]

    /// Compares all lifetimes with a naive model (C2.5, C3.6 to C3.9).
    #[test]
    fn everything_lives_as_long_as_the_rules_say(
        ops in prop::collection::vec((0_u8..11, 0_u64..1000), 0..80),
    ) {
        let mut rig = Rig::with(short());
        rig.worker(1, "one:1");
        // The request makes the process known as a living one.
        rig.register(Some("first"), facts()).unwrap();
        let mut model = Model::default();
        model.datasets.insert(DatasetId::new("first").unwrap(), (None, 0));
        for (op, choice) in ops {
            happen(&mut rig, &mut model, op, choice);
            model.check(&rig);
        }
    }
}
