//! Tests of the shutdown of the service.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{READER, Rig, open};
use crate::dispatcher::{ClientPush, DispatcherConfig, Event, Request, WorkerPush};
use crate::error::Code;
use crate::id::SessionId;
use crate::job::Policy;
use crate::whereabouts::Whereabouts;

/// C12.1
#[test]
fn everybody_learns_who_ended_the_service() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    shut_down(&mut rig, "the first");
    shut_down(&mut rig, "the second");
    assert_eq!(rig.told(&told("the first")), 1);
    let pushed = WorkerPush::ShutDown {
        by: "the first".to_owned(),
    };
    let of_worker = rig
        .worker_pushes
        .iter()
        .filter(|(to, push)| (*to, push) == (worker, &pushed));
    assert_eq!(of_worker.count(), 1);
    rig.ask(READER, Role::Read, Request::Attach { client }).unwrap();
    assert_eq!(rig.told(&told("the first")), 2);
}

/// C12.1, C1.4
#[test]
fn readers_and_workers_may_not_end_the_service() {
    let mut rig = Rig::new();
    for role in [Role::Read, Role::Worker] {
        let by = "an intruder".to_owned();
        let error = rig.ask(READER, role, Request::Shutdown { by }).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied);
    }
    rig.worker(1, "one:1");
    assert!(rig.machine.closed_by().is_none());
}

/// Tests the shutdown, also for a request that waits for a listing (C12.2).
#[test]
fn an_ending_service_still_takes_reports() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    rig.plans_itself = false;
    let waiting = rig.send(
        SessionId(9),
        Role::Read,
        Request::OpenIteration {
            job,
            repetition: 1,
            consumer: None,
            whereabouts: Whereabouts::default(),
        },
    );
    shut_down(&mut rig, "somebody");
    let refused = rig.reply(waiting).expect("answered").unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);
    for error in [
        rig.ask(READER, Role::Read, open(job)).unwrap_err(),
        rig.register_worker(2, "two:2").unwrap_err(),
        rig.ask(worker, Role::Worker, Request::DescribeTask { task })
            .unwrap_err(),
    ] {
        assert!(error.message.contains("shut down by somebody"), "{error}");
    }
    rig.finish(worker, task);
    rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
    rig.ask(READER, Role::Read, Request::Status).unwrap();
}

/// C12.3
#[test]
fn a_dispatcher_ends_after_the_last_has_left() {
    for hangs in [false, true] {
        let mut rig = Rig::with(DispatcherConfig {
            shutdown_quiet_period: Duration::from_secs(2),
            ..DispatcherConfig::default()
        });
        let job = rig.any_job(Policy::Off);
        let worker = rig.worker(1, "one:1");
        let client = rig.client(job);
        shut_down(&mut rig, "somebody");
        rig.ask(worker, Role::Worker, Request::LeaveWorker).unwrap();
        assert!(rig.machine.closed_by().is_none(), "a client is left");
        if hangs {
            let due = rig.machine.next_timeout().unwrap();
            assert!(due <= rig.now + Duration::from_secs(2));
            rig.now += Duration::from_secs(2);
            rig.event(Event::Woken);
        } else {
            rig.ask(READER, Role::Read, Request::Release { client }).unwrap();
        }
        assert_eq!(rig.machine.closed_by(), Some("somebody"));
    }
}

/// C12.4
#[test]
fn a_dispatcher_continues_from_its_records() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    shut_down(&mut rig, "somebody");
    assert!(rig.machine.closed_by().is_some(), "no client or worker is left");
    rig.restart();
    assert!(rig.machine.closed_by().is_none());
    rig.client(job);
}

fn shut_down(rig: &mut Rig, by: &str) {
    let by = by.to_owned();
    rig.ask(READER, Role::Submit, Request::Shutdown { by }).unwrap();
}

fn told(by: &str) -> ClientPush {
    ClientPush::ShutDown { by: by.to_owned() }
}
