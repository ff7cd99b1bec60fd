//! Tests of requests, which are answered once and remembered for as long as they may be repeated.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{READER, Rig, SplitsWanted, open};
use crate::dispatcher::{DispatcherConfig, Reply, Request};
use crate::error::Code;
use crate::id::SessionId;
use crate::job::Policy;

/// C1.5, C3.1
#[test]
fn a_retry_while_planning_gets_the_same_client() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    rig.plans_itself = false;
    rig.send_numbered(READER, Role::Read, open(job), 77, 1);
    rig.send_numbered(READER, Role::Read, open(job), 77, 1);
    let other = rig.send(SessionId(11), Role::Read, open(job));
    assert!(
        rig.replies.is_empty(),
        "no request is answered before the plan is known"
    );
    assert_eq!(rig.planning.len(), 1, "it is planned once");
    let iteration = rig.planning.remove(0);
    let result = rig.plan.clone();
    rig.event(crate::dispatcher::Event::SplitsPlanned { iteration, result });
    let ids = [77, 77, other].map(|token| match rig.reply(token) {
        Some(Ok(Reply::Client(id, _))) => id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

/// C1.5
#[test]
fn a_waiting_request_is_answered_after_others() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Dynamic);
    rig.plans_itself = false;
    let process = SessionId(12);
    rig.send_numbered(process, Role::Read, open(job), 1, 1);
    let unknown = Request::Release {
        client: crate::id::ClientId(999),
    };
    for number in 2..=256 {
        rig.send_numbered(process, Role::Read, unknown.clone(), number, 1);
        assert_eq!(rig.reply(number).unwrap().unwrap_err().code, Code::NotFound);
    }
    rig.send_numbered(process, Role::Read, unknown.clone(), 257, 1);
    let early = rig.reply(257).unwrap().unwrap_err();
    assert_eq!(early.code, Code::ResourceExhausted, "request 1 is not answered");
    rig.send_numbered(process, Role::Read, open(job), 1, 1);
    assert!(rig.reply(1).is_none(), "the retry waits with the first");
    let iteration = rig.planning.remove(0);
    let result = rig.plan.clone();
    rig.event(crate::dispatcher::Event::SplitsPlanned { iteration, result });
    let both = [rig.reply(1), rig.reply(1)];
    let [
        Some(Ok(Reply::Client(first, _))),
        Some(Ok(Reply::Client(again, _))),
    ] = both
    else {
        panic!("{both:?}")
    };
    assert_eq!(first, again);
    rig.send_numbered(process, Role::Read, unknown, 257, 257);
    assert_eq!(rig.reply(257).unwrap().unwrap_err().code, Code::NotFound);
}

/// C1.5
#[test]
fn settled_requests_are_forgotten_and_not_repeated() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    rig.send_numbered(READER, Role::Read, open(job), 1000, 1000);
    rig.send_numbered(READER, Role::Read, open(job), 1001, 1001);
    let clients = rig.machine.status().counts.clients;
    rig.replies.clear();
    rig.send_numbered(READER, Role::Read, open(job), 1000, 1000);
    assert_eq!(rig.reply(1000).unwrap().unwrap_err().code, Code::InvalidArgument);
    assert_eq!(rig.machine.status().counts.clients, clients);
}

/// Tests that splits of a lost answer reach their worker, although the client timeout is shorter than the
/// worker's lease (C1.5, C1.10).
#[test]
fn silent_living_workers_keep_their_answers() {
    let mut rig = Rig::with(DispatcherConfig {
        client_timeout: Duration::from_secs(3),
        ..DispatcherConfig::default()
    });
    let worker = rig.worker(1, "a:1");
    let job = rig.any_job(Policy::Dynamic);
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    let wanted = SplitsWanted {
        want: 2,
        is_idle: false,
        ..SplitsWanted::by(task)
    };
    let lease = Request::from(wanted);
    let mut leased = Vec::new();
    for _ in 0..2 {
        rig.send_numbered(worker, Role::Worker, lease.clone(), 500, 500);
        match rig.reply(500) {
            Some(Ok(Reply::Splits { runs, .. })) => leased.push(runs),
            other => panic!("{other:?}"),
        }
        rig.pass(4, &[], &[client]);
    }
    assert_eq!(
        leased[0], leased[1],
        "the repeated request is not carried out again"
    );
    rig.pass(4, &[], &[client]);
    rig.send_numbered(worker, Role::Worker, lease, 500, 500);
    let given_up = rig.reply(500).unwrap().unwrap_err();
    assert_eq!(
        given_up.code,
        Code::Aborted,
        "a worker without a lease is forgotten"
    );
}
