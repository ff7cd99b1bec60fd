//! Tests of the events that operators read.

use millstream_link::Role;

use super::rig::{Rig, failed};
use crate::dispatcher::{Request, ServiceEventKind};
use crate::job::Policy;

fn kinds(rig: &Rig) -> Vec<ServiceEventKind> {
    let events = rig.machine.service_events();
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn events_name_what_happened() {
    let mut rig = Rig::new();
    let worker = rig.worker(1, "one:1");
    let job = rig.any_job(Policy::Dynamic);
    rig.client(job);
    let [task] = rig.tasks(worker)[..] else {
        panic!("one task");
    };
    rig.lease(worker, task).unwrap();
    rig.ask(worker, Role::Worker, failed(task, "cannot open /data/a.tar"))
        .unwrap();
    rig.ask(worker, Role::Worker, Request::DrainWorker).unwrap();
    rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
    let expected = [
        ServiceEventKind::Leading,
        ServiceEventKind::WorkerRegistered,
        ServiceEventKind::JobCreated,
        ServiceEventKind::EpochBegun,
        ServiceEventKind::TaskFailed,
        ServiceEventKind::SplitsLost,
        ServiceEventKind::EpochFinished,
        ServiceEventKind::WorkerDraining,
        ServiceEventKind::WorkerLeft,
    ];
    assert_eq!(kinds(&rig), expected);
    let events = rig.machine.service_events();
    for (position, texts) in [
        (1, ["one:1", "registered"]),
        (2, ["under the policy dynamic", "dataset"]),
        (4, ["one:1", "cannot open /data/a.tar"]),
        (5, ["lost splits with worker one:1", "of source 0"]),
    ] {
        let text = &events[position].text;
        assert!(texts.iter().all(|named| text.contains(named)), "{text}");
    }
    assert_eq!(events[4].job, Some(job));
    assert!(
        events
            .iter()
            .zip(1..)
            .all(|(event, number)| event.number == number)
    );
}

#[test]
fn silent_workers_and_trainers_are_events() {
    let mut rig = Rig::new();
    rig.worker(1, "one:1");
    let job = rig.any_job(Policy::Dynamic);
    rig.client(job);
    rig.pass(400, &[], &[]);
    let found = kinds(&rig);
    for kind in [ServiceEventKind::WorkerGivenUp, ServiceEventKind::TrainerGivenUp] {
        assert!(found.contains(&kind) && kind.is_fault(), "{found:?}");
    }
    rig.restart();
    assert_eq!(kinds(&rig), [ServiceEventKind::Leading]);
}
