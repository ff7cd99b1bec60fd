//! A dispatcher that comes back with its records.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dispatcher::{Dispatcher, DispatcherConfig, Event, HiddenKey, Record, WorkerRecord};
use crate::id::{BootId, SessionId, WorkerId};
use crate::whereabouts::Whereabouts;

/// C1.8: a worker that lives on has tasks of both for a while.
#[test]
fn a_restarted_dispatcher_uses_new_task_ids() {
    let first_task = |boot| {
        let machine = Dispatcher::new(DispatcherConfig::default(), BootId(boot), Duration::ZERO);
        machine.state.tables.meta().next_task
    };
    // As far apart as random numbers are.
    let boots = (0..64_u64).map(|life| life.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let firsts: BTreeSet<_> = boots.map(first_task).collect();
    assert_eq!(firsts.len(), 64);
    let mut gaps = firsts.iter().zip(firsts.iter().skip(1));
    assert!(gaps.all(|(one, next)| next.0 - one.0 > 100_000), "{firsts:?}");
}

/// C1.6: a worker misses the old dispatcher only after a silence, however soon the new one is there.
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
