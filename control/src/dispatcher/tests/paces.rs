//! Tests of the paces of tasks and clients, and of the estimated number of workers.

use millstream_link::Role;

use super::rig::{READER, Rig};
use crate::dispatcher::{ClientStatus, Event, IterationStatus, Request, TaskStatus};
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;
use crate::links::LinkCounts;
use crate::pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};

fn pace(elements: u64, element_ns: u64) -> Pace {
    Pace {
        elements,
        element_ns: Some(element_ns),
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
    assert_eq!(rig.machine.status().workers_wanted, None);
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
    // The client wants 1 000 elements per second, and each worker yields 100. With two living workers, the
    // estimate is at most eight workers.
    assert_eq!(found.workers_wanted, Some(10));
    assert_eq!(rig.machine.status().workers_wanted, Some(8));
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
        (iterations.collect(), status.workers_wanted)
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
