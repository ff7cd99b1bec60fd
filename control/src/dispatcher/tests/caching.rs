//! Tests of jobs with the cross-trainer cache: their conditions, and the completion of their splits.

use millstream_link::Role;

use super::rig::{READER, Rig, facts, open};
use crate::dispatcher::{Reply, Request};
use crate::error::{Code, Error};
use crate::id::{DatasetId, JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::Cardinality;
use crate::split::LeaseRange;
use crate::whereabouts::Whereabouts;

fn dataset(rig: &mut Rig, cardinality: Cardinality) -> DatasetId {
    let facts = crate::planner::DatasetFacts {
        cardinality,
        ..facts()
    };
    rig.register(None, facts).unwrap()
}

fn cached(dataset: DatasetId, policy: Policy) -> JobParameters {
    JobParameters {
        cross_trainer_cache: true,
        ..JobParameters::new(dataset, policy)
    }
}

/// Returns a job on an infinite dataset, and its task on a worker.
fn task(rig: &mut Rig, policy: Policy, is_cached: bool) -> (JobId, SessionId, TaskId) {
    let dataset = dataset(rig, Cardinality::Infinite);
    let mut parameters = cached(dataset, policy);
    parameters.cross_trainer_cache = is_cached;
    let job = rig.job(Some("search"), parameters).unwrap();
    let worker = rig.worker(1, "one:1");
    rig.client(job);
    let task = rig.tasks(worker)[0];
    (job, worker, task)
}

fn assert_invalid(outcome: Result<JobId, Error>, parts: &[&str]) {
    let error = outcome.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part}: {error}");
    }
}

/// C13.1
#[test]
fn a_cached_job_is_checked_when_created() {
    let mut rig = Rig::new();
    let endless = dataset(&mut rig, Cardinality::Infinite);
    let unknown = dataset(&mut rig, Cardinality::Unknown);
    rig.job(Some("endless"), cached(endless.clone(), Policy::Off))
        .unwrap();
    rig.job(Some("unknown"), cached(unknown, Policy::Off)).unwrap();
    assert_invalid(rig.job(None, cached(endless.clone(), Policy::Off)), &["job_name"]);
    for elements in [0, 10] {
        let finite = dataset(&mut rig, Cardinality::Finite(elements));
        let count = format!("{elements} elements");
        let refused = rig.job(Some("finite"), cached(finite, Policy::Off));
        assert_invalid(refused, &["infinite dataset", &count]);
    }
    let mut coordinated = cached(endless, Policy::Off);
    coordinated.num_consumers = Some(2);
    assert_invalid(rig.job(Some("both"), coordinated), &["num_consumers"]);
}

/// C2.3
#[test]
fn jobs_that_differ_in_the_cache_are_different() {
    let mut rig = Rig::new();
    let endless = dataset(&mut rig, Cardinality::Infinite);
    let wanted = cached(endless.clone(), Policy::Dynamic);
    let job = rig.job(Some("search"), wanted.clone()).unwrap();
    assert_eq!(rig.job(Some("search"), wanted), Ok(job));
    let differs = rig.job(Some("search"), JobParameters::new(endless, Policy::Off));
    let parts = [
        "sharding policy is dynamic, not off",
        "cross-trainer cache is true, not false",
    ];
    assert_invalid(differs, &parts);
}

/// C13.2
#[test]
fn a_cached_job_has_only_one_pass() {
    let mut rig = Rig::new();
    let (job, ..) = task(&mut rig, Policy::Off, true);
    for pass in [1, 5] {
        let Request::OpenIteration { consumer, .. } = open(job) else {
            panic!("it opens an iteration")
        };
        let request = Request::OpenIteration {
            job,
            repetition: pass,
            consumer,
            whereabouts: Whereabouts::default(),
        };
        let error = rig.ask(READER, Role::Read, request).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(&format!("repetition {pass}")), "{error}");
    }
}

#[test]
fn a_task_knows_whether_it_is_cached() {
    for is_cached in [true, false] {
        let mut rig = Rig::new();
        let (_, worker, task) = task(&mut rig, Policy::Off, is_cached);
        let reply = rig
            .ask(worker, Role::Worker, Request::DescribeTask { task })
            .unwrap();
        let Reply::Task(definition) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(definition.cross_trainer_cache, is_cached);
    }
}

/// C13.3
#[test]
fn cached_splits_are_done_when_produced() {
    let produced = |task| Request::SplitsProduced {
        task,
        leases: vec![LeaseRange { first: 0, count: 3 }],
    };
    let mut rig = Rig::new();
    let (_, worker, task) = task(&mut rig, Policy::Dynamic, true);
    for _ in 0..2 {
        rig.lease(worker, task).unwrap();
    }
    for _ in 0..2 {
        // A repeated report has no further effect.
        rig.ask(worker, Role::Worker, produced(task)).unwrap();
        let status = &rig.machine.status().iterations[0];
        assert_eq!((status.splits_done, status.splits_leased), (3, 0));
    }
    let reader = rig.ask(READER, Role::Read, produced(task)).unwrap_err();
    assert_eq!(reader.code, Code::PermissionDenied);

    let mut rig = Rig::new();
    let (_, worker, task) = self::task(&mut rig, Policy::Dynamic, false);
    rig.lease(worker, task).unwrap();
    let error = rig.ask(worker, Role::Worker, produced(task)).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert_eq!(rig.machine.status().iterations[0].splits_leased, 1);
}
