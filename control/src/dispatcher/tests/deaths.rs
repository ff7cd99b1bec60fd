//! Tests of workers that die, and of workers that only seem to.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{READER, Rig};
use crate::dispatcher::{ClientPush, Departure, Event, Request};
use crate::error::Code;
use crate::id::{ClientId, SessionId, WorkerId};
use crate::job::Policy;

/// Returns two workers and a client that reads both.
fn rig() -> (Rig, [SessionId; 2], ClientId) {
    let mut rig = Rig::new();
    let workers = [rig.worker(1, "a:1"), rig.worker(2, "b:1")];
    let job = rig.any_job(Policy::Dynamic);
    let client = rig.client(job);
    rig.pass(2, &workers, &[client]);
    (rig, workers, client)
}

fn suspect(
    rig: &mut Rig,
    client: ClientId,
    address: &str,
) -> Result<crate::dispatcher::Reply, crate::error::Error> {
    let address = address.to_owned();
    rig.ask(READER, Role::Read, Request::SuspectWorker { client, address })
}

fn removed(rig: &Rig) -> usize {
    let is_removal = |push: &&ClientPush| matches!(push, ClientPush::TaskRemoved(_));
    let pushes = rig.client_pushes.iter().map(|(_, push)| push);
    pushes.filter(is_removal).count()
}

/// C7.4, C7.8
#[test]
fn a_reported_closed_port_kills_a_worker_early() {
    let (mut rig, [one, _], client) = rig();
    suspect(&mut rig, client, "b:1").unwrap();
    assert_eq!(rig.probed, [WorkerId(2)]);
    rig.event(Event::WorkerProbed {
        worker: WorkerId(2),
        is_closed: true,
    });
    assert_eq!(removed(&rig), 0, "a heartbeat may be on its way");
    for _ in 0..3 {
        rig.pass_half(&[one], &[client]);
    }
    assert_eq!(removed(&rig), 1);
}

/// C7.8
#[test]
fn only_clients_of_this_process_report_workers() {
    let (mut rig, workers, client) = rig();
    let error = suspect(&mut rig, ClientId(77), "b:1").unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    suspect(&mut rig, client, "c:1").unwrap();
    assert!(rig.probed.is_empty());
    for _ in 0..30 {
        suspect(&mut rig, client, "b:1").unwrap();
        rig.pass_half(&workers, &[client]);
    }
    assert_eq!(removed(&rig), 0);
}

/// C7.4
#[test]
fn a_workers_goodbye_is_its_death() {
    for (departure, expected) in [
        (Departure::Goodbye, 1),
        (Departure::Reset, 0),
        (Departure::Lost, 0),
    ] {
        let (mut rig, [_, two], client) = rig();
        rig.event(Event::Disconnected {
            session: two,
            departure,
        });
        assert_eq!(removed(&rig), expected, "{departure:?}");
        let [one, _] = [SessionId(1), two];
        for _ in 0..3 {
            rig.pass_half(&[one], &[client]);
        }
        let expected = if departure == Departure::Lost { 0 } else { 1 };
        assert_eq!(removed(&rig), expected, "{departure:?}");
    }
}

/// C4.3
#[test]
fn a_goodbye_releases_the_clients_of_a_process() {
    for departure in [Departure::Goodbye, Departure::Reset, Departure::Lost] {
        let (mut rig, _, client) = rig();
        let session = READER;
        rig.event(Event::Disconnected { session, departure });
        let is_released = suspect(&mut rig, client, "b:1").is_err();
        assert_eq!(is_released, departure == Departure::Goodbye, "{departure:?}");
    }
}

/// C7.6
#[test]
fn a_late_loop_delays_everybodys_deadline() {
    let (mut rig, workers, client) = rig();
    for _ in 0..20 {
        // Each time the loop runs, three seconds have passed, and only the heartbeats of one worker have
        // arrived.
        rig.now += Duration::from_secs(3);
        rig.event(Event::Woken);
        assert_eq!(removed(&rig), 0);
        for session in workers {
            rig.event(Event::Heartbeat {
                session,
                worker: true,
                clients: vec![],
            });
        }
        rig.pass_half(&workers, &[client]);
    }
    assert_eq!(removed(&rig), 0);
}

/// C7.4
#[test]
fn a_cut_off_dispatcher_gives_no_worker_up() {
    let (mut rig, workers, client) = rig();
    for _ in 0..20 {
        rig.now += Duration::from_millis(250);
        rig.event(Event::Woken);
    }
    assert_eq!(removed(&rig), 0, "five seconds");
    rig.pass(20, &workers, &[client]);
    assert_eq!(removed(&rig), 0);
    rig.pass(6, &workers[..1], &[client]);
    assert_eq!(removed(&rig), 1);
}
