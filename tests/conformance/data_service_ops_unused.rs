//! data_service_ops_test: the removal of unused jobs and tasks.

use std::time::Duration;

use millstream::client::MaxOutstanding;
use millstream::control::{DispatcherConfig, Policy};

use super::harness::{Distributed, distribute, range, take};
use crate::support::cluster::{Cluster, drain, prompt};
use crate::support::links::Mechanism;
use crate::support::{eventually, watched};

/// The number of elements, larger than the prefetch of a reader of [`distributed`].
const ELEMENTS: i64 = 1000;

/// Starts a service that deletes unused records after 500 ms. Upstream uses 20 ms, but here a new job counts
/// as unused until its first reader.
fn collecting(workers: usize, gc_dynamic_sharding_jobs: bool) -> Cluster {
    let config = DispatcherConfig {
        job_gc_check_interval: Duration::from_millis(50),
        job_gc_timeout: Some(Duration::from_millis(500)),
        sweep_interval: Duration::from_millis(10),
        gc_dynamic_sharding_jobs,
        ..prompt()
    };
    Cluster::plain_with(Mechanism::Memory, config, workers)
}

/// Distributes a dataset whose reader prefetches few elements, so that its tasks do not end by themselves.
fn distributed(cluster: &Cluster, policy: Policy) -> Distributed<'_> {
    let mut distributed = distribute(cluster.service(), range(ELEMENTS), policy);
    distributed.config.max_outstanding = MaxOutstanding::Elements(5);
    distributed
}

/// Returns the number of tasks on all workers.
fn tasks(cluster: &Cluster) -> u64 {
    let status = cluster.service().status().expect("a status");
    status.workers.iter().map(|worker| worker.tasks).sum()
}

#[test]
fn data_service_ops_test__gc_unused_job() {
    watched("an unused job", || {
        let cluster = collecting(1, false);
        for name in [None, Some("test")] {
            let distributed = distributed(&cluster, Policy::Off);
            let distributed = match name {
                Some(name) => distributed.named(name),
                None => distributed,
            };
            let mut reader = distributed.reader();
            assert_eq!(take(&mut reader, 1), [0]);
            assert_eq!(tasks(&cluster), 1);
            drop(reader);
            eventually("tasks", &0, || tasks(&cluster));
        }
    });
}

#[test]
fn data_service_ops_test__dont_gc_jobs_with_visitation_guarantees() {
    watched("a job that stays", || {
        let cluster = collecting(1, false);
        // The jobs have names, because the tasks of a job without a name end with its reader (C3.6).
        let dynamic = distributed(&cluster, Policy::Dynamic).named("dynamic");
        let off = distributed(&cluster, Policy::Off).named("off");
        let mut readers = [dynamic.reader(), off.reader()];
        for reader in &mut readers {
            assert_eq!(take(reader, 1), [0]);
        }
        assert_eq!(tasks(&cluster), 2);
        // The readers are dropped in this order, so that the job that stays was unused for longer than the
        // deleted job.
        drop(readers);
        eventually("tasks", &1, || tasks(&cluster));
        let status = cluster.service().status().expect("a status");
        let left = status.iterations[0].job;
        let left = status.jobs.iter().find(|job| job.id == left);
        assert_eq!(left.expect("its job").parameters.policy, Policy::Dynamic);
    });
}

#[test]
fn a_nameless_jobs_pass_ends_with_its_reader() {
    watched("a pass that nobody can go on with", || {
        let cluster = Cluster::plain_with(Mechanism::Memory, prompt(), 2);
        for policy in [Policy::Dynamic, Policy::Off] {
            let distributed = distributed(&cluster, policy);
            let mut reader = distributed.reader();
            take(&mut reader, 1);
            assert_eq!(tasks(&cluster), 2);
            drop(reader);
            eventually("tasks", &0, || tasks(&cluster));
        }
    });
}

#[test]
fn data_service_ops_test__gc_dynamic_sharding_job_if_requested() {
    watched("a dynamic job that goes", || {
        let cluster = collecting(1, true);
        let distributed = distributed(&cluster, Policy::Dynamic).named("goes");
        let mut reader = distributed.reader();
        assert_eq!(take(&mut reader, 1), [0]);
        assert_eq!(tasks(&cluster), 1);
        drop(reader);
        eventually("tasks", &0, || tasks(&cluster));
    });
}

#[test]
fn data_service_ops_test__gc_and_recreate() {
    watched("created again", || {
        let cluster = collecting(3, false);
        for _ in 0..3 {
            let distributed = distributed(&cluster, Policy::Off).named("test");
            let mut reader = distributed.reader();
            assert_eq!(take(&mut reader, 50).len(), 50);
            drop(reader);
            eventually("tasks", &0, || tasks(&cluster));
            // A name belongs to one dataset as long as a job has this name.
            let jobs = || cluster.service().status().expect("a status").counts.jobs;
            eventually("jobs", &0, jobs);
        }
    });
}

#[test]
fn data_service_ops_test__keep_client_alive_before_reading() {
    // The timeout is twice upstream's, because a living client on a busy machine may be silent for that long.
    const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
    watched("a late first read", || {
        let config = DispatcherConfig {
            client_timeout: CLIENT_TIMEOUT,
            heartbeat_interval: CLIENT_TIMEOUT / 20,
            liveness: CLIENT_TIMEOUT,
            ..prompt()
        };
        let cluster = Cluster::plain_with(Mechanism::Memory, config, 1);
        let mut reader = distributed(&cluster, Policy::Off).reader();
        // The pause is longer than the timeout after which a silent client is released.
        std::thread::sleep(2 * CLIENT_TIMEOUT);
        assert_eq!(drain(&mut reader), (0..ELEMENTS).collect::<Vec<_>>());
    });
}
