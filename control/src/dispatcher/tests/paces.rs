//! Tests of the paces of tasks and clients, and of the estimated number of workers.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{READER, Rig};
use crate::dispatcher::{
    ClientStatus, DispatcherConfig, Event, IterationStatus, Request, StageStatus, TaskStatus,
};
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;
use crate::links::{ClientLinks, LinkCounts, NETWORK_REASON_BYTES_MAX};
use crate::load::WorkerLoad;
use crate::pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};
use crate::scaling::{Observation, ScalingConfig};
use crate::stage::{STAGE_LABEL_BYTES_MAX, STAGES_MAX, StagePace};

fn pace(elements: u64, element_ns: u64) -> Pace {
    Pace {
        elements,
        element_ns: Some(element_ns),
        waited_ms: 5 * elements / 4,
        busy_ms: 0,
    }
}

impl Rig {
    fn paced(&mut self, session: SessionId, tasks: &[(TaskId, Pace)], clients: &[(ClientId, Pace)]) {
        let measures = Measures {
            tasks: tasks.to_vec(),
            clients: clients.to_vec(),
            ..Measures::default()
        };
        self.event(Event::Measured { session, measures });
    }

    fn observed(&self) -> Observation {
        let state = &self.machine.state;
        state.paces.observation(&state.tables, self.now)
    }

    fn held_up(&mut self, session: SessionId, task: TaskId, by: &str) {
        let measures = Measures {
            bottlenecks: vec![(task, by.to_owned())],
            ..Measures::default()
        };
        self.event(Event::Measured { session, measures });
    }

    fn linked(&mut self, session: SessionId, links: LinkCounts) {
        let measures = Measures {
            links: Some(links),
            ..Measures::default()
        };
        self.event(Event::Measured { session, measures });
    }

    fn iteration(&self) -> IterationStatus {
        self.machine.status().iterations[0].clone()
    }
}

/// C11.1, C11.2
#[test]
fn the_status_has_paces_and_wanted_workers() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    let client = rig.client(job);
    assert_eq!(rig.machine.status().workers_estimated, None);
    for elements in [100, 300] {
        rig.pass(2, &workers, &[client]);
        for worker in workers {
            let task = rig.tasks(worker)[0];
            rig.paced(worker, &[(task, pace(elements, 10_000_000))], &[]);
        }
        rig.paced(READER, &[], &[(client, pace(2 * elements, 1_000_000))]);
    }
    let found = rig.iteration();
    let task = |task: &TaskStatus| (task.elements, task.elements_per_s, task.element_ns);
    assert!(
        found
            .tasks
            .iter()
            .all(|row| task(row) == (300, 100.0, Some(10_000_000)))
    );
    let reader = |client: &ClientStatus| (client.elements, client.elements_per_s, client.element_ns);
    assert_eq!(reader(&found.clients[0]), (600, 200.0, Some(1_000_000)));
    // 400 elements more came in two seconds, of which the user waited half a second.
    assert_eq!(found.clients[0].waiting, Some(0.25));
    // The client wants 1 000 elements per second, and each worker yields 100. With two living workers, the
    // estimate is at most eight workers.
    assert_eq!(found.workers_wanted, Some(10));
    assert_eq!(rig.machine.status().workers_estimated, Some(8));
}

/// C11.1
#[test]
fn a_task_that_ended_produces_nothing() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for elements in [100, 300] {
        rig.pass(2, &[worker], &[client]);
        rig.paced(worker, &[(task, pace(elements, 10_000_000))], &[]);
    }
    assert_eq!(rig.iteration().tasks[0].elements_per_s, 100.0);
    let finished = Request::FinishTask {
        task,
        delivered: false,
        exhausted: true,
        cut_short: false,
    };
    let answer = rig.ask(worker, Role::Worker, finished);
    assert!(answer.is_ok(), "{answer:?}");
    let row = &rig.iteration().tasks[0];
    assert!(!row.is_running() && !row.has_failed(), "{row:?}");
    assert_eq!((row.elements, row.elements_per_s), (300, 0.0));
}

/// C11.1
#[test]
fn nobody_speaks_for_others() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let (honest, liar) = (rig.worker(1, "one:1"), rig.worker(2, "two:2"));
    let client = rig.client(job);
    let task = rig.tasks(honest)[0];
    rig.paced(liar, &[(task, pace(1, 1))], &[(client, pace(1, 1))]);
    rig.paced(READER, &[(task, pace(1, 1))], &[(ClientId(999), pace(1, 1))]);
    let found = rig.iteration();
    assert!(found.tasks.iter().all(|task| task.element_ns.is_none()));
    assert!(found.clients.iter().all(|client| client.element_ns.is_none()));
}

/// C11.4
#[test]
fn the_status_names_each_tasks_bottleneck() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let (honest, liar) = (rig.worker(1, "one:1"), rig.worker(2, "two:2"));
    rig.client(job);
    let task = rig.tasks(honest)[0];
    let found = |rig: &Rig| {
        let rows = rig.iteration().tasks;
        rows.iter()
            .find(|row| row.id == task)
            .and_then(|row| row.bottleneck.clone())
    };
    assert_eq!(found(&rig), None);
    rig.held_up(honest, task, "decode_image");
    rig.held_up(liar, task, "nothing");
    assert_eq!(found(&rig).as_deref(), Some("decode_image"));
    rig.held_up(honest, task, &"x".repeat(9 * BOTTLENECK_BYTES_MAX));
    assert_eq!(found(&rig).map(|name| name.len()), Some(BOTTLENECK_BYTES_MAX));
}

/// Tests that a dead worker yields no elements, and that a released reader takes none (C11.2).
#[test]
fn who_is_gone_does_not_count() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let (lives, dies) = (rig.worker(1, "lives:1"), rig.worker(2, "dies:2"));
    let (stays, leaves) = (rig.client(job), rig.client(job));
    for (worker, element_ns) in [(lives, 8_000), (dies, 2_000)] {
        let task = rig.tasks(worker)[0];
        rig.paced(worker, &[(task, pace(1, element_ns))], &[]);
    }
    rig.paced(READER, &[], &[(stays, pace(1, 1_000)), (leaves, pace(1, 1_000))]);
    // The clients want 2 000 000 elements per second, and a worker yields 312 500 on average.
    assert_eq!(rig.iteration().workers_wanted, Some(7));
    rig.ask(READER, Role::Read, Request::Release { client: leaves })
        .unwrap();
    rig.pass(6, &[lives], &[stays]);
    assert_eq!(rig.iteration().workers_wanted, Some(8));
    assert_eq!(
        rig.machine.state.paces.len(),
        2,
        "one task and one client are left"
    );
}

/// C11.2
#[test]
fn the_latest_paces_decide_the_wanted_workers() {
    let mut rig = Rig::new();
    let workers = [1, 2, 3, 4, 5].map(|number| rig.worker(number, &format!("host:{number}")));
    let clients = [(); 3].map(|()| {
        let job = rig.any_job(Policy::Off);
        rig.client(job)
    });
    let wanted = |rig: &Rig| -> (Vec<Option<u64>>, Option<u64>) {
        let status = rig.machine.status();
        let iterations = status.iterations.iter().map(|row| row.workers_wanted);
        (iterations.collect(), status.workers_estimated)
    };
    let mut told = Vec::new();
    for (iteration, element_ns) in [(0, 99_900), (0, 7_900), (1, 10_900), (2, 19_900)] {
        for worker in workers {
            let task = rig.tasks(worker)[iteration];
            rig.paced(worker, &[(task, pace(1, element_ns))], &[]);
        }
        rig.paced(READER, &[], &[(clients[iteration], pace(1, 1_000))]);
        told.push(wanted(&rig).1);
    }
    // With five living workers, the estimate is at most twenty workers.
    assert_eq!(told, [Some(20), Some(8), Some(11), Some(20)]);
    assert_eq!(wanted(&rig).0, [Some(8), Some(11), Some(20)]);
    rig.paced(READER, &[], &[(clients[1], pace(2, 2_000))]);
    for worker in workers {
        let task = rig.tasks(worker)[2];
        rig.finish(worker, task);
    }
    assert_eq!(wanted(&rig), (vec![Some(8), Some(6), None], Some(8)));
}

/// C11.5
#[test]
fn waiting_readers_raise_the_wanted_workers() {
    let scaling = ScalingConfig {
        warm_up: Duration::from_secs(2),
        idle_after: Duration::from_secs(20),
        ..ScalingConfig::default()
    };
    let mut rig = Rig::with(DispatcherConfig {
        scaling,
        ..DispatcherConfig::default()
    });
    let wanted = |rig: &Rig| {
        let status = rig.machine.status();
        (status.workers_wanted, status.workers_wanted_reason)
    };
    let job = rig.any_job(Policy::Off);
    let client = rig.client(job);
    assert_eq!(wanted(&rig), (None, String::new()));
    rig.pass(6, &[], &[client]);
    assert_eq!(wanted(&rig), (Some(1), "readers have arrived".to_owned()));
    let worker = rig.worker(1, "one:1");
    let task = rig.tasks(worker)[0];
    for second in 1..=12 {
        rig.pass(1, &[worker], &[client]);
        // The worker yields 100 elements in a second, and the reader would take 300.
        let reading = Pace {
            elements: 100 * second,
            element_ns: Some(3_333_333),
            waited_ms: 667 * second,
            busy_ms: 0,
        };
        rig.paced(worker, &[(task, pace(100 * second, 10_000_000))], &[]);
        rig.paced(READER, &[], &[(client, reading)]);
    }
    let (number, reason) = wanted(&rig);
    // The rates round the estimate of three workers up.
    assert!((3..=4).contains(&number.unwrap_or_default()), "{number:?}");
    assert!(reason.starts_with("readers wait for data 6"), "{reason}");
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
    rig.pass(22, &[worker], &[]);
    let (number, reason) = wanted(&rig);
    assert_eq!(
        (number, reason.starts_with("no reader for 2")),
        (Some(0), true),
        "{reason}"
    );
    rig.restart();
    assert_eq!(wanted(&rig).0, None, "the decisions are not stored");
}

/// C11.1
#[test]
fn an_element_in_progress_makes_a_task_busy() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for second in 1..=4_u64 {
        rig.pass(1, &[worker], &[client]);
        let working = Pace {
            busy_ms: 250 * second,
            ..Pace::default()
        };
        let waiting = Pace {
            waited_ms: 1000 * second,
            ..Pace::default()
        };
        rig.paced(worker, &[(task, working)], &[]);
        rig.paced(READER, &[], &[(client, waiting)]);
    }
    let row = rig.iteration();
    assert_eq!((row.tasks[0].elements, row.tasks[0].busy), (0, Some(0.25)));
    let client = &row.clients[0];
    assert_eq!(
        (client.elements, client.waiting, client.waited_ms),
        (0, Some(1.0), 4000)
    );
    assert_eq!(row.workers_wanted, None, "no element has shown a pace");
}

/// C11.5
#[test]
fn read_ahead_does_not_count_as_load() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for elements in [10, 20] {
        rig.pass(1, &[worker], &[client]);
        // The worker fills buffers at its full pace, and the reader takes a tenth of the elements.
        rig.paced(worker, &[(task, pace(10 * elements, 10_000_000))], &[]);
        rig.paced(READER, &[], &[(client, pace(elements, 100_000_000))]);
    }
    let seen = rig.observed();
    let load = seen.load.unwrap_or_default();
    // The user waits for one percent of its time.
    assert!((load - 0.1).abs() < 0.002, "{seen:?}");
    rig.pass(6, &[worker], &[client]);
    let seen = rig.observed();
    assert_eq!(
        (seen.readers, seen.producing, seen.load, seen.waiting),
        (1, 0, None, None),
        "old reports"
    );
}

/// C11.5
#[test]
fn workers_of_a_long_step_are_loaded() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for elements in [1, 2, 2, 2] {
        rig.pass(1, &[worker], &[client]);
        // The reader takes an element of 5 s of work in every step of 10 s, and none in the last seconds.
        rig.paced(worker, &[(task, pace(elements, 5_000_000_000))], &[]);
        rig.paced(READER, &[], &[(client, pace(elements, 10_000_000_000))]);
    }
    let busy = Pace {
        busy_ms: 2_000,
        ..pace(2, 5_000_000_000)
    };
    rig.pass(1, &[worker], &[client]);
    rig.paced(worker, &[(task, busy)], &[]);
    let seen = rig.observed();
    assert_eq!((seen.rate, seen.load), (0.0, Some(0.5)), "{seen:?}");
    assert_eq!(seen.step, Duration::from_secs(10));
}

/// C11.5
#[test]
fn idle_readers_make_no_steps() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let (reads, idles) = (rig.client(job), rig.client(job));
    for elements in 1..=12 {
        rig.pass(2, &[worker], &[reads, idles]);
        // The second reader stays open after two elements, for example that of an evaluation.
        let paces = [
            (reads, pace(elements, 1_000_000_000)),
            (idles, pace(elements.min(2), 4_000_000_000)),
        ];
        rig.paced(READER, &[], &paces);
        if elements == 2 {
            assert_eq!(rig.observed().step, Duration::from_secs(4));
        }
    }
    assert_eq!(
        rig.observed().step,
        Duration::from_secs(1),
        "twenty seconds later"
    );
}

/// C11.5
#[test]
fn draining_workers_do_not_count_as_present() {
    let mut rig = Rig::new();
    let (stays, leaves) = (rig.worker(1, "stays:1"), rig.worker(2, "leaves:2"));
    let seen = |rig: &Rig| {
        rig.machine
            .state
            .paces
            .observation(&rig.machine.state.tables, rig.now)
            .workers
    };
    assert_eq!(seen(&rig), 2);
    rig.ask(leaves, Role::Worker, Request::DrainWorker).unwrap();
    assert_eq!(seen(&rig), 1);
    rig.ask(stays, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(seen(&rig), 0);
}

/// C11.6
#[test]
fn stages_are_summed_over_tasks() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let workers = [rig.worker(1, "one:1"), rig.worker(2, "two:2")];
    rig.client(job);
    let stage = |busy_permille| StagePace {
        label: "ä".repeat(STAGE_LABEL_BYTES_MAX),
        elements_per_1000_s: 5000,
        busy_permille,
        waited_permille: 250,
        threads: 2,
        ..StagePace::default()
    };
    for (worker, busy_permille) in [(workers[0], 500), (workers[1], 1500), (READER, 9)] {
        let stages = vec![stage(busy_permille); 2 * STAGES_MAX];
        let measures = Measures {
            stages: rig
                .tasks(worker)
                .into_iter()
                .map(|task| (task, stages.clone()))
                .collect(),
            load: Some(WorkerLoad {
                python_processes: u64::from(busy_permille),
                ..WorkerLoad::default()
            }),
            ..Measures::default()
        };
        rig.event(Event::Measured {
            session: worker,
            measures,
        });
    }
    let stages: Vec<_> = rig.machine.stages().into_values().collect();
    let [stages] = &stages[..] else {
        panic!("{stages:?}");
    };
    assert_eq!(stages.len(), STAGES_MAX);
    let expected = StageStatus {
        label: "ä".repeat(STAGE_LABEL_BYTES_MAX / 2),
        depth: 0,
        elements_per_s: 10.0,
        busy: 2.0,
        waited: 0.25,
        threads: 4,
        workers: 2,
    };
    assert_eq!(stages[0], expected);
    let loads = rig.machine.status().workers;
    let processes: Vec<_> = loads
        .iter()
        .map(|worker| worker.load.map(|load| load.python_processes))
        .collect();
    assert_eq!(processes, [Some(500), Some(1500)]);
}

/// C11.6
#[test]
fn stages_of_pausing_trainers_have_no_rates() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let stages = vec![StagePace {
        label: "map(decode)".to_owned(),
        elements_per_1000_s: 5000,
        busy_permille: 900,
        waited_permille: 250,
        threads: 2,
        ..StagePace::default()
    }];
    let task = rig.tasks(worker)[0];
    let measures = Measures {
        stages: vec![(task, stages)],
        ..Measures::default()
    };
    let shown = |rig: &Rig| rig.machine.stages().into_values().next().unwrap()[0].clone();
    rig.event(Event::Measured {
        session: worker,
        measures,
    });
    rig.pass(4, &[worker], &[client]);
    assert_eq!((shown(&rig).elements_per_s, shown(&rig).workers), (5.0, 1));
    // The task waits for its reader, and has nothing to report.
    rig.pass(4, &[worker], &[client]);
    let named = StageStatus {
        label: "map(decode)".to_owned(),
        ..StageStatus::default()
    };
    assert_eq!(shown(&rig), named);
    let reports = |rig: &Rig| rig.machine.state.paces.stage_reports();
    assert_eq!(reports(&rig), 1);
    // A task that has ended takes no place of running ones.
    rig.finish(worker, task);
    rig.pass(2, &[worker], &[client]);
    assert_eq!(reports(&rig), 0);
}

/// C11.3
#[test]
fn the_status_counts_readers_by_their_link() {
    let mut rig = Rig::new();
    let (lives, dies) = (rig.worker(1, "lives:1"), rig.worker(2, "dies:2"));
    let counts = |network| LinkCounts {
        network,
        ..LinkCounts::default()
    };
    let told = |rig: &Rig| -> Vec<_> {
        let workers = rig.machine.status().workers;
        workers.iter().map(|worker| worker.links).collect()
    };
    assert_eq!(told(&rig), [None, None]);
    for (session, links) in [(lives, 1), (dies, 2), (lives, 3), (READER, 9)] {
        rig.linked(session, counts(links));
    }
    assert_eq!(told(&rig), [Some(counts(3)), Some(counts(2))]);
    rig.ask(dies, Role::Worker, Request::LeaveWorker).unwrap();
    assert_eq!(told(&rig), [Some(counts(3)), None]);
    rig.restart();
    assert_eq!(told(&rig), [None, None], "it is said again, and not stored");
}

/// C11.3
#[test]
fn the_status_says_why_links_cross_a_network() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let told = |rig: &Rig| rig.iteration().clients[0].links.clone();
    assert_eq!(told(&rig), None);
    let links = |reason: &str| ClientLinks {
        counts: LinkCounts {
            network: 1,
            ..LinkCounts::default()
        },
        network_reason: Some(reason.to_owned()),
    };
    let report = |rig: &mut Rig, session, reason: &str| {
        let measures = Measures {
            client_links: vec![(client, links(reason))],
            ..Measures::default()
        };
        rig.event(Event::Measured { session, measures });
    };
    // A worker says nothing about a client.
    report(&mut rig, worker, "forged");
    assert_eq!(told(&rig), None);
    report(&mut rig, READER, &"ä".repeat(NETWORK_REASON_BYTES_MAX));
    assert_eq!(told(&rig), Some(links(&"ä".repeat(NETWORK_REASON_BYTES_MAX / 2))));
}
