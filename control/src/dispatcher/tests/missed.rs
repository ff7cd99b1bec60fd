//! Tests of elements that readers held when they died.

use std::time::Duration;

use millstream_link::Role;

use super::rig::{LIVENESS, READER, Rig, open};
use crate::dispatcher::{ClientPush, Event, Phase, Reply, Request, WorkerPush};
use crate::id::{ClientId, SessionId, TaskId};
use crate::job::Policy;
use crate::split::LeaseRange;

const OTHER: SessionId = SessionId(11);

/// One task that holds splits, and two clients of two processes.
struct Shared {
    rig: Rig,
    worker: SessionId,
    task: TaskId,
    doomed: ClientId,
    other: ClientId,
}

impl Shared {
    fn new() -> Shared {
        let mut rig = Rig::new();
        rig.answers_releases = false;
        let job = rig.any_job(Policy::Dynamic);
        let worker = rig.worker(1, "one:1");
        let doomed = rig.client(job);
        let Ok(Reply::Client(other, _)) = rig.ask(OTHER, Role::Read, open(job)) else {
            panic!("no client")
        };
        let task = rig.tasks(worker)[0];
        while !rig.lease(worker, task).unwrap().1 {}
        Shared {
            rig,
            worker,
            task,
            doomed,
            other,
        }
    }

    fn done(&mut self, session: SessionId, client: ClientId, first: u64, count: u64) {
        let leases = vec![LeaseRange { first, count }];
        let task = self.task;
        let request = Request::SplitsDone { client, task, leases };
        self.rig.ask(session, Role::Read, request).unwrap();
    }

    fn drained(&mut self, session: SessionId, client: ClientId) {
        let task = self.task;
        let request = Request::TaskDrained { client, task };
        self.rig.ask(session, Role::Read, request).unwrap();
    }

    fn finish(&mut self, delivered: bool) {
        let request = Request::FinishTask {
            task: self.task,
            delivered,
            exhausted: true,
            cut_short: false,
        };
        self.rig.ask(self.worker, Role::Worker, request).unwrap();
    }

    fn missed(&mut self, first: u64, count: u64) {
        let leases = vec![LeaseRange { first, count }];
        let request = Request::SplitsMissed(self.task, self.doomed, leases, true);
        self.rig.ask(self.worker, Role::Worker, request).unwrap();
    }

    /// Lets time pass while only the other client sends heartbeats.
    fn pass(&mut self, half_seconds: u64) {
        for _ in 0..half_seconds {
            let other = Event::Heartbeat {
                session: OTHER,
                worker: false,
                clients: vec![self.other],
            };
            self.rig.pass_half(&[self.worker], &[]);
            self.rig.event(other);
        }
    }

    fn outcome(&self) -> (Phase, u64, u64) {
        let row = &self.rig.machine.status().iterations[0];
        (row.phase, row.splits_done, row.splits_lost)
    }

    fn is_told_to_release(&self) -> bool {
        let release = WorkerPush::Release {
            client: self.doomed,
            tasks: vec![self.task],
        };
        self.rig
            .worker_pushes
            .iter()
            .any(|push| *push == (self.worker, release.clone()))
    }
}

/// C6.7
#[test]
fn what_a_gone_client_had_is_lost() {
    let mut shared = Shared::new();
    shared
        .rig
        .ask(
            READER,
            Role::Read,
            Request::Release {
                client: shared.doomed,
            },
        )
        .unwrap();
    assert!(shared.is_told_to_release());
    shared.done(OTHER, shared.other, 0, 95);
    shared.drained(OTHER, shared.other);
    shared.finish(true);
    assert_eq!(shared.outcome().0, Phase::Running, "the worker has not answered");
    shared.missed(95, 5);
    assert_eq!(shared.outcome(), (Phase::Finished, 95, 5));
    let is_told = |(client, push): &(ClientId, ClientPush)| {
        *client == shared.other && matches!(push, ClientPush::SplitsLost { .. })
    };
    assert!(shared.rig.client_pushes.iter().any(is_told));
}

/// C6.7
#[test]
fn a_worker_is_asked_again_after_it_reconnects() {
    let mut shared = Shared::new();
    shared.rig.machine.state.end_client(shared.doomed);
    shared.rig.event(Event::Woken);
    shared.rig.restart();
    shared.rig.worker_pushes.clear();
    shared.rig.register_worker(1, "one:1").unwrap();
    assert!(shared.is_told_to_release());
    shared.missed(0, 1);
    shared.rig.worker_pushes.clear();
    shared.rig.register_worker(1, "one:1").unwrap();
    assert!(!shared.is_told_to_release(), "it has answered");
}

/// C5.8
#[test]
fn splits_in_a_clients_hand_outlive_the_iteration() {
    for is_used in [true, false] {
        let mut shared = Shared::new();
        shared.done(OTHER, shared.other, 0, 90);
        let request = Request::SplitsWaiting(
            shared.doomed,
            shared.task,
            vec![LeaseRange { first: 90, count: 10 }],
        );
        shared.rig.ask(READER, Role::Read, request).unwrap();
        shared.drained(READER, shared.doomed);
        shared.drained(OTHER, shared.other);
        shared.finish(true);
        assert_eq!(
            shared.outcome(),
            (Phase::Finished, 90, 0),
            "nobody waits for users"
        );
        if is_used {
            shared.done(READER, shared.doomed, 90, 10);
        }
        let client = shared.doomed;
        shared
            .rig
            .ask(READER, Role::Read, Request::Release { client })
            .unwrap();
        let (done, lost) = if is_used { (100, 0) } else { (90, 10) };
        assert_eq!(shared.outcome(), (Phase::Finished, done, lost));
    }
}

/// Tests splits that two clients hold. If only one client were told of the end, such a split would be done
/// while the other could still lose it (C5.8).
#[test]
fn shared_splits_are_done_once_both_clients_are() {
    #[derive(Clone, Copy, PartialEq)]
    enum Doomed {
        Uses,
        GoesLast,
        GoesFirst,
        IsMissed,
    }
    for fate in [
        Doomed::Uses,
        Doomed::GoesLast,
        Doomed::GoesFirst,
        Doomed::IsMissed,
    ] {
        let mut shared = Shared::new();
        shared.done(OTHER, shared.other, 0, 90);
        let mut share = |client| {
            let leases = vec![LeaseRange { first: 90, count: 10 }];
            let request = Request::SplitsShared(shared.task, client, leases);
            shared.rig.ask(shared.worker, Role::Worker, request).unwrap();
        };
        share(shared.doomed);
        share(shared.other);
        share(shared.doomed);
        if fate == Doomed::GoesFirst {
            shared.rig.machine.state.end_client(shared.doomed);
        }
        if fate == Doomed::IsMissed {
            shared.missed(90, 10);
        }
        shared.done(OTHER, shared.other, 90, 10);
        if fate == Doomed::Uses {
            shared.done(READER, shared.doomed, 90, 10);
        }
        shared.rig.machine.state.end_client(shared.doomed);
        shared.rig.machine.state.end_client(shared.other);
        let (_, done, lost) = shared.outcome();
        let expected = if fate == Doomed::Uses { (100, 0) } else { (90, 10) };
        assert_eq!((done, lost), expected);
    }
}

/// C6.8
#[test]
fn a_silent_client_is_ended_once_others_wait() {
    let mut shared = Shared::new();
    shared.pass(40);
    let clients = |shared: &Shared| shared.rig.machine.status().counts.clients;
    assert_eq!(clients(&shared), 2, "something is still produced");
    shared.finish(false);
    shared.pass(1);
    assert_eq!(clients(&shared), 1);
    assert_eq!(shared.rig.told(&ClientPush::Lapsed), 1);
}

/// C6.8
#[test]
fn a_client_that_comes_back_in_time_stays() {
    let mut shared = Shared::new();
    shared.finish(false);
    for _ in 0..3 {
        let since = shared.rig.now;
        while shared.rig.now + Duration::from_secs(1) < since + LIVENESS {
            shared.pass(1);
        }
        let doomed = shared.doomed;
        shared.rig.pass_half(&[shared.worker], &[doomed]);
    }
    assert_eq!(shared.rig.machine.status().counts.clients, 2);
}

/// Tests a silent client without another client that could wait for it (C6.8).
#[test]
fn an_only_client_may_use_its_whole_timeout() {
    let mut shared = Shared::new();
    let client = shared.other;
    shared
        .rig
        .ask(OTHER, Role::Read, Request::Release { client })
        .unwrap();
    shared.finish(false);
    let worker = shared.worker;
    shared.rig.pass(60, &[worker], &[]);
    assert_eq!(shared.rig.machine.status().counts.clients, 1);
}
