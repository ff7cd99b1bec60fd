//! Tests of a reader's core: the reason for which a consumer waits, and the splits of a coordinated read.
#![allow(clippy::disallowed_methods, reason = "a test may start at any time")]

use std::time::Duration;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Accepted, EndOfTask, Released, SplitDone, ToClient};
use millstream_dataplane::proto::send::TaskPack;
use millstream_dataplane::transport::{Body, Downstream, LinkReport};
use millstream_element::{Dtype, ElementSpec, HeapAlloc, SlotAlloc, TensorSpec};
use tokio::time::Instant;

use super::credit::{Bounds, MaxOutstanding};
use super::events::Obeyed;
use super::{ReaderCore, Reading};
use crate::event::{TaskEvent, TaskSource};
use crate::place::WorkerPlace;
use crate::report::Report;
use crate::stats::Bottleneck;

const TASK: TaskId = TaskId(1);

fn core(now: Instant) -> ReaderCore {
    core_of(now, 4, false)
}

/// Returns a consumer of a coordinated read with at most this number of outstanding elements.
fn consumer(max_outstanding: u64) -> ReaderCore {
    core_of(Instant::now(), max_outstanding, true)
}

fn core_of(now: Instant, max_outstanding: u64, is_coordinated: bool) -> ReaderCore {
    let bounds = Bounds {
        max_outstanding: MaxOutstanding::Elements(max_outstanding),
        auto_bytes: 0,
        max_outstanding_bytes: 1 << 20,
        shared: None,
    };
    let reading = Reading {
        bounds,
        is_coordinated,
        trainer_id: None,
        whole_splits: false,
        is_exactly_once: false,
    };
    ReaderCore::new(reading, now)
}

/// Lets a worker on another host accept the reader's subscription to a task.
fn subscribe(core: &mut ReaderCore, task: TaskId) {
    let worker = WorkerPlace::at("a");
    core.add_task(TaskSource {
        task,
        worker: worker.clone(),
        ticket: Vec::new(),
        start_round: Some(0),
    });
    core.handle_link_up("a", &worker, false);
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[1])).unwrap();
    let accepted = ToClient::Accepted(Accepted {
        task,
        spec: spec.to_bytes(),
        element_bytes: 64,
    });
    core.handle("a", Downstream::Message(accepted)).unwrap();
}

/// Lets the element with this number arrive.
fn arrive(core: &mut ReaderCore, first: u64) {
    core.admit(TASK, first, 1, 64).unwrap();
    let pack = Body::Lz4 {
        block: HeapAlloc.alloc(64).unwrap().freeze(),
        region_bytes: 64,
        lens: vec![64],
    };
    let task = TASK;
    core.handle("a", Downstream::Pack(TaskPack { task, first, pack }))
        .unwrap();
}

fn tell(core: &mut ReaderCore, message: ToClient) {
    core.handle("a", Downstream::Message(message)).unwrap();
}

/// C9.9: groups that are not released may be given up with the worker, so their splits are not done.
#[test]
fn splits_are_done_once_their_groups_are_released() {
    for is_removed in [false, true] {
        let mut core = consumer(4);
        subscribe(&mut core, TASK);
        core.obey(TaskEvent::CaughtUp);
        assert!(core.next(0).is_pending());
        arrive(&mut core, 0);
        let (task, lease, attempt, upto) = (TASK, 5, 0, 1);
        let done = SplitDone {
            task,
            lease,
            attempt,
            upto,
        };
        tell(&mut core, ToClient::SplitDone(done));
        let released = |groups| ToClient::Released(Released { task, groups });
        tell(&mut core, released(1));
        assert_eq!(
            core.next_report(),
            None,
            "another consumer's element may be in the next group"
        );
        if is_removed {
            let (reason, has_left) = ("its worker is gone".to_owned(), false);
            let removed = TaskEvent::Removed {
                task,
                reason,
                has_left,
            };
            let (Obeyed::LookThrough(_, remains), _) = core.obey(removed) else {
                panic!("the reader drops the task")
            };
            assert_eq!(core.next_report(), None);
            assert!(remains.seen.contains(&lease) && !remains.done.contains(&lease));
            continue;
        }
        arrive(&mut core, 1);
        tell(&mut core, released(2));
        let leases = vec![lease..=lease];
        assert_eq!(core.next_report(), Some(Report::Done { task, leases }));
    }
}

/// D7.5: an end may overtake the last element. Once both have arrived, the next turn is that of another task,
/// which has no credit yet.
#[test]
fn the_turn_after_an_end_has_credit() {
    let other = TaskId(2);
    let mut core = consumer(1);
    subscribe(&mut core, TASK);
    subscribe(&mut core, other);
    core.obey(TaskEvent::CaughtUp);
    assert!(core.next(0).is_pending());
    let credits = |core: &ReaderCore, task: TaskId| core.tasks[&task].half.outstanding();
    assert_eq!((credits(&core, TASK), credits(&core, other)), (1, 0));
    let (task, sent) = (TASK, 1);
    tell(&mut core, ToClient::EndOfTask(EndOfTask { task, sent }));
    arrive(&mut core, 0);
    assert_eq!(credits(&core, other), 1);
}

#[test]
fn links_after_the_first_are_reconnects() {
    let mut core = core(Instant::now());
    subscribe(&mut core, TASK);
    assert_eq!(core.reconnects(), 0);
    core.note_link("a", LinkReport::default());
    core.handle_link_lost("a");
    core.handle_link_up("a", &WorkerPlace::at("a"), false);
    assert_eq!(core.reconnects(), 1);
}

#[test]
fn each_part_can_be_what_is_waited_for() {
    let start = Instant::now();
    let mut core = core(start);
    let waits_for = |core: &ReaderCore, after_ms| core.waits_for(start + Duration::from_millis(after_ms));
    assert_eq!(
        waits_for(&core, 0),
        None,
        "the consumer has not asked for an element"
    );
    assert!(core.next(0).is_pending());
    assert_eq!(waits_for(&core, 0), Some(Bottleneck::NoWorkers));
    subscribe(&mut core, TASK);
    // The credits were just sent, and an unknown round trip is assumed to take 10 ms.
    assert_eq!(waits_for(&core, 0), Some(Bottleneck::Network));
    assert_eq!(waits_for(&core, 100), Some(Bottleneck::Workers));
    core.admit(TASK, 0, 1, 64).unwrap();
    let on_its_way = "a pack is on its way";
    assert_eq!(waits_for(&core, 100), Some(Bottleneck::Network), "{on_its_way}");
    core.note_contact(false);
    let needs_none = "a pack arrives without the dispatcher";
    assert_eq!(waits_for(&core, 100), Some(Bottleneck::Network), "{needs_none}");
    core.handle_link_lost("a");
    assert_eq!(waits_for(&core, 100), Some(Bottleneck::Dispatcher));
    core.note_contact(true);
    assert_eq!(
        waits_for(&core, 100),
        Some(Bottleneck::Network),
        "the worker has no link"
    );
    core.cancel(0);
    assert_eq!(
        waits_for(&core, 100),
        None,
        "the consumer has an error to receive"
    );
}
