//! Tests of the verdict: for each cause, whether the sentence names it.

use millstream_control::{
    BootId, ClientId, ClientStatus, Counts, IterationId, IterationStatus, JobId, Phase, ProgramStatus,
    Refusals, SplitRange, Status, TaskId, TaskStatus, WorkerId, WorkerStatus,
};

use super::{Level, Verdict};

pub(super) fn client(waiting: Option<f64>) -> ClientStatus {
    ClientStatus {
        id: ClientId(7),
        silent_ms: 10,
        consumer: None,
        elements: 100,
        elements_per_s: 50.0,
        element_ns: Some(1_000_000),
        waiting,
        waited_ms: 0,
        links: None,
    }
}

/// Returns a task that computes for a share of its time.
pub(super) fn task(busy: f64, bottleneck: &str) -> TaskStatus {
    TaskStatus {
        id: TaskId(3),
        worker: WorkerId(1),
        worker_address: "node1:5051".to_owned(),
        phase: "running".to_owned(),
        splits_leased: 1,
        elements: 100,
        elements_per_s: 50.0,
        element_ns: Some((busy / 50.0 * 1e9) as u64),
        bottleneck: Some(bottleneck.to_owned()),
        busy: Some(busy),
    }
}

pub(super) fn row(clients: Vec<ClientStatus>, tasks: Vec<TaskStatus>) -> IterationStatus {
    IterationStatus {
        id: IterationId(1),
        job: JobId(1001),
        repetition: 0,
        phase: Phase::Running,
        waiting_for_workers: false,
        clients,
        tasks,
        removals: 0,
        sources: Vec::new(),
        splits_leased: 0,
        splits_done: 0,
        splits_lost: 0,
        lost: Vec::<SplitRange>::new(),
        missing_consumers: Vec::new(),
        workers_wanted: Some(4),
        skipped: Vec::new(),
    }
}

fn worker(dead: Option<&str>, silent_ms: u64) -> WorkerStatus {
    WorkerStatus {
        id: WorkerId(1),
        address: "node1:5051".to_owned(),
        tags: Vec::new(),
        version: "1".to_owned(),
        dead: dead.map(str::to_owned),
        silent_ms,
        tasks: 1,
        draining: false,
        links: None,
        load: None,
    }
}

pub(super) fn status(rows: Vec<IterationStatus>) -> Status {
    Status {
        boot: BootId(1),
        workers: vec![worker(None, 10)],
        datasets: Vec::new(),
        jobs: Vec::new(),
        iterations: rows,
        workers_wanted: Some(4),
        workers_wanted_reason: "readers wait for data 40 % of the time".to_owned(),
        workers_estimated: Some(4),
        counts: Counts {
            workers: 2,
            ..Counts::default()
        },
        refusals: Refusals::default(),
        program: ProgramStatus::default(),
    }
}

/// Checks the level of a verdict, and that it names each text.
fn check(status: &Status, level: Level, named: &[&str]) {
    let found = Verdict::of(status, None, 0);
    assert_eq!(found.level, level, "{found:?}");
    for text in named {
        assert!(
            found.sentence.contains(text) || found.advice.contains(text),
            "{text:?} is missing in {found:?}"
        );
    }
}

#[test]
fn a_slow_stage_is_named() {
    let tasks = vec![
        task(0.98, "map(decode)"),
        task(0.9, "map(decode)"),
        task(0.3, "consumer"),
    ];
    let slow = status(vec![row(vec![client(Some(0.1)), client(Some(0.38))], tasks)]);
    check(
        &slow,
        Level::Warning,
        &[
            "job 1001",
            "38 %",
            "map(decode)",
            "2 of 3",
            "run 4 workers instead of 2",
        ],
    );
}

#[test]
fn tasks_that_have_ended_are_not_busy() {
    let ended = TaskStatus {
        phase: "finished".to_owned(),
        element_ns: None,
        busy: None,
        ..task(0.0, "map(old)")
    };
    let slow = status(vec![row(
        vec![client(Some(0.5))],
        vec![ended, task(0.9, "map(new)")],
    )]);
    check(
        &slow,
        Level::Warning,
        &["stage map(new) keeps 1 of 1 workers busy"],
    );
}

#[test]
fn an_unknown_stage_is_left_out() {
    let begun = TaskStatus {
        element_ns: None,
        bottleneck: None,
        busy: None,
        ..task(0.0, "")
    };
    let slow = status(vec![row(vec![client(Some(0.5))], vec![begun])]);
    check(&slow, Level::Warning, &["because 1 of 1 workers are busy"]);
}

#[test]
fn a_late_first_element_is_named() {
    let waiting = |waited_ms| ClientStatus {
        elements: 0,
        element_ns: None,
        waited_ms,
        ..client(Some(1.0))
    };
    let working = || TaskStatus {
        elements: 0,
        elements_per_s: 0.0,
        element_ns: None,
        bottleneck: None,
        ..task(1.0, "")
    };
    let begun = |waited_ms| status(vec![row(vec![waiting(waited_ms)], vec![working()])]);
    check(&begun(2_999), Level::Good, &["have begun to read"]);
    check(
        &begun(3_000),
        Level::Warning,
        &[
            "has waited 3 s for its first element, because 1 of 1 workers are busy",
            "storage",
        ],
    );
}

#[test]
fn a_worker_within_an_element_is_busy() {
    let stuck = TaskStatus {
        elements_per_s: 0.0,
        ..task(1.0, "map(stuck)")
    };
    let slow = status(vec![row(vec![client(Some(1.0))], vec![stuck])]);
    check(
        &slow,
        Level::Warning,
        &["stage map(stuck) keeps 1 of 1 workers busy"],
    );
}

#[test]
fn a_slow_network_is_named() {
    let slow = status(vec![row(vec![client(Some(0.5))], vec![task(0.1, "consumer")])]);
    check(
        &slow,
        Level::Warning,
        &["50 %", "network", "max_outstanding_requests"],
    );
}

#[test]
fn slow_trainers_are_no_problem() {
    let busy = status(vec![row(vec![client(Some(0.01))], vec![task(0.2, "consumer")])]);
    check(
        &busy,
        Level::Good,
        &["No trainer waits", "1 %", "trainers set the speed"],
    );
    check(
        &status(vec![row(vec![client(None)], Vec::new())]),
        Level::Good,
        &["begun to read"],
    );
    check(
        &status(Vec::new()),
        Level::Good,
        &["No trainer reads", "2 workers"],
    );
}

#[test]
fn faults_come_before_waits() {
    let waits = || row(vec![client(Some(0.9))], vec![task(0.9, "map(slow)")]);
    let mut found = status(vec![waits()]);
    found.workers.push(worker(Some("it sent no heartbeat"), 20_000));
    check(&found, Level::Warning, &["node1:5051", "no heartbeat"]);
    found.iterations[0].splits_lost = 3;
    check(
        &found,
        Level::Fault,
        &["has lost splits", "3 of them", "exactly_once"],
    );
    found.iterations[0].missing_consumers = vec![2, 5];
    check(&found, Level::Fault, &["consumers 2, 5"]);
    found.counts.workers = 0;
    check(&found, Level::Fault, &["no worker is alive"]);
    found.iterations[0].tasks[0].phase = "failed: cannot decode".to_owned();
    check(&found, Level::Fault, &["failed: cannot decode", "node1:5051"]);
    let full = Verdict::of(&found, Some("no space left on device"), 0);
    assert!(
        full.level == Level::Fault && full.sentence.contains("no space left"),
        "{full:?}"
    );
}

#[test]
fn old_deaths_are_forgotten() {
    let mut found = status(Vec::new());
    found.workers.push(worker(Some("it sent no heartbeat"), 70_000));
    check(&found, Level::Good, &[]);
}

#[test]
fn wrong_keys_are_named() {
    let found = Verdict::of(&status(Vec::new()), None, 3);
    assert_eq!(found.level, Level::Warning);
    assert!(
        found.sentence.contains("3 connections") && found.advice.contains("audit log"),
        "{found:?}"
    );
}
