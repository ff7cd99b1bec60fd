//! Tests of a dispatcher that restarts with its records.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dispatcher::{Dispatcher, DispatcherConfig, Event, HiddenKey, Record, WorkerRecord};
use crate::id::{BootId, SessionId, WorkerId};
use crate::whereabouts::Whereabouts;

/// Tests that task ids of two lives differ, because a surviving worker has tasks of both lives for a while
/// (C1.8).
#[test]
fn a_restarted_dispatcher_uses_new_task_ids() {
    let first_task = |boot| {
        let machine = Dispatcher::new(DispatcherConfig::default(), BootId(boot), Duration::ZERO);
        machine.state.tables.meta().next_task
    };
    // The boot ids are spread like random numbers.
    let boots = (0..64_u64).map(|life| life.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let firsts: BTreeSet<_> = boots.map(first_task).collect();
    assert_eq!(firsts.len(), 64);
    let mut gaps = firsts.iter().zip(firsts.iter().skip(1));
    assert!(gaps.all(|(one, next)| next.0 - one.0 > 100_000), "{firsts:?}");
}

/// Tests the lease after a restart. A worker notices the restart only by a silence, even if the new
/// dispatcher starts at once (C1.6).
#[test]
fn after_a_restart_workers_have_their_whole_lease() {
    let config = DispatcherConfig::default();
    let (lease, step) = (config.worker_lease(), config.sweep_interval);
    let worker = WorkerId(1);
    let record = WorkerRecord {
        id: worker,
        session: SessionId(1),
        address: "worker:1".to_owned(),
        tags: vec![],
        ticket_key: HiddenKey([0; 32].into()),
        version: String::new(),
        dead: None,
        index: 0,
        draining: false,
        whereabouts: Whereabouts::default(),
        local_socket: None,
    };
    let mut machine = Dispatcher::load(config, [Record::Worker(record)], BootId(1), Duration::ZERO);
    let is_dead = |machine: &Dispatcher| machine.state.tables.workers.get(&worker).unwrap().dead.is_some();
    let mut now = Duration::ZERO;
    while now < lease {
        now += step;
        machine.handle(Event::Woken, now);
        assert!(!is_dead(&machine), "{now:?}");
    }
    machine.handle(Event::Woken, now + step);
    assert!(is_dead(&machine));
}
