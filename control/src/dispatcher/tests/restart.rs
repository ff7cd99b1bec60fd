//! A dispatcher that comes back with its records.

use std::time::Duration;

use crate::dispatcher::{Dispatcher, DispatcherConfig, Event, HiddenKey, Record, WorkerRecord};
use crate::id::{BootId, SessionId, WorkerId};

/// C1.6: a worker misses the old dispatcher only after a silence, however soon the new one is there.
#[test]
fn after_a_restart_workers_have_one_silence_to_notice_and_one_to_come_back() {
    let config = DispatcherConfig::default();
    let (liveness, step) = (config.liveness, config.sweep_interval);
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
    };
    let mut machine = Dispatcher::load(config, [Record::Worker(record)], BootId(1), Duration::ZERO);
    let is_dead = |machine: &Dispatcher| machine.tables.workers.get(&worker).unwrap().dead.is_some();
    let mut now = Duration::ZERO;
    while now < 2 * liveness {
        now += step;
        machine.handle(Event::Woken, now);
        assert!(!is_dead(&machine), "{now:?}");
    }
    machine.handle(Event::Woken, now + step);
    assert!(is_dead(&machine));
}
