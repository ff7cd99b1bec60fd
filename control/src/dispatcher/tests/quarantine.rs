//! Tests of the elements that the workers of an exactly-once job leave out (C16.12).

use millstream_link::Role;

use super::exactness::job;
use super::people::snapshot;
use super::rig::{Rig, facts};
use crate::dispatcher::{ClientPush, FailureReport, Reply, Request};
use crate::error::Code;
use crate::exactly_once::{ExactlyOnce, FailedElement, QuarantinedElement};
use crate::job::{JobParameters, Policy};

fn leaving_out(count: usize) -> ExactlyOnce {
    let elements = (0..count as u64).map(|split| QuarantinedElement { split, id: 3 });
    ExactlyOnce {
        quarantine: Some(elements.collect()),
        ..ExactlyOnce::whole(7)
    }
}

/// C16.12
#[test]
fn tasks_are_told_what_to_leave_out() {
    let mut rig = Rig::new();
    let once = leaving_out(2);
    let job = job(&mut rig, once.clone());
    let worker = rig.worker(1, "one:1");
    let _client = rig.client(job);
    let task = rig.tasks(worker)[0];
    for _ in 0..2 {
        let described = rig.ask(worker, Role::Worker, Request::DescribeTask { task });
        let Ok(Reply::Task(definition)) = described else {
            panic!("expected a task, found {described:?}")
        };
        assert_eq!(definition.exactly_once.as_ref(), Some(&once));
        rig.restart();
    }
}

/// C16.12
#[test]
fn a_long_quarantine_is_refused() {
    let mut rig = Rig::new();
    let dataset = rig.register(None, facts()).unwrap();
    let mut ask = |count| {
        let parameters = JobParameters {
            in_order: true,
            exactly_once: Some(leaving_out(count)),
            ..JobParameters::new(dataset.clone(), Policy::Dynamic)
        };
        rig.job(None, parameters)
    };
    ask(ExactlyOnce::QUARANTINED_MAX).unwrap();
    let error = ask(ExactlyOnce::QUARANTINED_MAX + 1).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.contains("at most 256 failed elements"), "{error}");
}

/// C16.12
#[test]
fn readers_are_told_which_element_failed() {
    let mut rig = Rig::new();
    let job = job(&mut rig, leaving_out(0));
    let worker = rig.worker(1, "one:1");
    let client = rig.client(job);
    let task = rig.tasks(worker)[0];
    let element = Some(FailedElement {
        split: 5,
        id: 3,
        yielded: 2,
    });
    let message = "no 37, please".to_owned();
    let report = FailureReport {
        message: message.clone(),
        element,
    };
    rig.ask(worker, Role::Worker, Request::FailTask { task, report })
        .unwrap();
    let told = ClientPush::TaskFailed {
        task,
        worker_address: "one:1".to_owned(),
        message,
        element,
    };
    assert_eq!(rig.told(&told), 1);
    // A reader that was away hears of it, too, and from a dispatcher that has read its records.
    for _ in 0..2 {
        let failures = snapshot(&mut rig, client).failed;
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].element, element);
        rig.restart();
    }
}
