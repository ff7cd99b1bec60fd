//! Tests of datasets, jobs and iterations: they are found again, or refused with the reason.

use millstream_link::Role;

use super::rig::{READER, Rig, facts, open};
use crate::dispatcher::{Reply, Request};
use crate::error::Code;
use crate::id::{DatasetId, JobId};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, PlanError, SplitPlan};

/// C2.1
#[test]
fn automatic_ids_skip_taken_ones() {
    let mut rig = Rig::new();
    rig.register(Some("1001"), facts()).unwrap();
    let ids: Vec<String> = (0..3)
        .map(|_| rig.register(None, facts()).unwrap().to_string())
        .collect();
    assert_eq!(ids, ["1000", "1002", "1003"]);
}

/// C2.2
#[test]
fn one_id_means_one_structure() {
    let mut rig = Rig::new();
    assert_eq!(rig.register(Some("pets"), facts()).unwrap().as_str(), "pets");
    assert_eq!(rig.register(Some("pets"), facts()).unwrap().as_str(), "pets");
    let mut other = facts();
    other.cardinality = Cardinality::Infinite;
    other.spec = vec![2];
    let error = rig.register(Some("pets"), other).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    for part in [
        "pets",
        "element specification",
        "cardinality is 100, not infinite",
    ] {
        assert!(error.message.contains(part), "{error}");
    }
    assert!(!error.message.contains("compression"), "{error}");
    let mut other = facts();
    other.compression = Some("lz4".to_owned());
    let error = rig.register(Some("pets"), other).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(
        error
            .message
            .contains("compression is as workers are set, not lz4"),
        "{error}"
    );
    assert!(!error.message.contains("cardinality"), "{error}");
}

/// C2.3
#[test]
fn a_named_job_lists_all_differences() {
    let mut rig = Rig::new();
    let first = rig.register(None, facts()).unwrap();
    let longer = DatasetFacts {
        cardinality: Cardinality::Finite(101),
        ..facts()
    };
    let second = rig.register(None, longer).unwrap();
    let job = rig
        .job(Some("train"), JobParameters::new(first.clone(), Policy::Off))
        .unwrap();
    assert_eq!(
        rig.job(Some("train"), JobParameters::new(first.clone(), Policy::Off)),
        Ok(job)
    );
    let error = rig
        .job(Some("train"), JobParameters::new(second, Policy::Dynamic))
        .unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    for part in ["train", "dataset is 1000, not 1001", "policy is off, not dynamic"] {
        assert!(error.message.contains(part), "{error}");
    }
    let again = rig.register(None, facts()).unwrap();
    assert_eq!(
        rig.job(Some("train"), JobParameters::new(again, Policy::Off)),
        Ok(job),
        "what one program registers again is the same dataset"
    );
    let alike = Request::RegisterDataset {
        id: None,
        definition: b"another graph".to_vec(),
        facts: facts(),
    };
    let Reply::Dataset(alike) = rig.ask(READER, Role::Submit, alike).unwrap() else {
        panic!("no dataset")
    };
    let error = rig
        .job(Some("train"), JobParameters::new(alike, Policy::Off))
        .unwrap_err();
    assert!(error.message.contains("dataset is 1000, not 1003"), "{error}");
    let own = JobParameters::new(first, Policy::Off);
    assert_ne!(rig.job(None, own.clone()), rig.job(None, own));
}

/// C2.4
#[test]
fn an_indivisible_dataset_is_refused_with_the_reason() {
    let mut rig = Rig::new();
    let mut whole = facts();
    whole.splittable = Err("a generator cannot be split".to_owned());
    let whole = rig.register(None, whole).unwrap();
    let error = rig
        .job(None, JobParameters::new(whole.clone(), Policy::Dynamic))
        .unwrap_err();
    assert!(error.message.contains("a generator cannot be split"), "{error}");
    rig.job(None, JobParameters::new(whole, Policy::Off)).unwrap();
}

#[test]
fn unknown_names_are_named() {
    let mut rig = Rig::new();
    let nowhere = DatasetId::new("nowhere").unwrap();
    let error = rig
        .job(None, JobParameters::new(nowhere, Policy::Off))
        .unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert!(error.message.contains("nowhere"), "{error}");
    let error = rig.ask(READER, Role::Read, open(JobId(7))).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
}

/// C1.4
#[test]
fn a_role_does_what_it_may() {
    let mut rig = Rig::new();
    let register = Request::RegisterDataset {
        id: None,
        definition: vec![],
        facts: facts(),
    };
    for role in [Role::Read, Role::Worker, Role::Dispatcher] {
        let error = rig.ask(READER, role, register.clone()).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied);
        assert!(error.message.contains(role.name()), "{error}");
    }
    for role in [Role::Read, Role::Submit] {
        let error = rig.ask(READER, role, Request::LeaveWorker).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied);
    }
    let error = rig.ask(READER, Role::Worker, open(JobId(1))).unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied);
    assert!(matches!(
        rig.ask(READER, Role::Worker, Request::Status),
        Ok(Reply::Status(_))
    ));
}

/// C2.6
#[test]
fn only_submitters_read_definitions_back() {
    let mut rig = Rig::new();
    let id = rig.register(None, facts()).unwrap();
    let read = Request::ReadDefinition { id };
    for role in [Role::Read, Role::Worker, Role::Dispatcher] {
        let error = rig.ask(READER, role, read.clone()).unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied);
    }
    let Ok(Reply::Definition(record)) = rig.ask(READER, Role::Submit, read) else {
        panic!("it may be read")
    };
    assert_eq!(record.definition.as_slice(), b"graph");
}

/// C3.1
#[test]
fn a_failed_listing_refuses_the_iteration() {
    let mut rig = Rig::new();
    let job = rig.any_job(Policy::Off);
    rig.plan = Err(PlanError::Source("no file matches /data/*.tar".to_owned()));
    let error = rig.ask(READER, Role::Read, open(job)).unwrap_err();
    assert!(error.message.contains("/data/*.tar"), "{error}");
    assert!(rig.machine.status().iterations.is_empty());
    rig.plan = Ok(SplitPlan::default());
    rig.client(job);
}
