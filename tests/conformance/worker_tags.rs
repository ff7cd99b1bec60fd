//! The rows of worker_tags_test: workers with the tag `COLOCATED` serve only the readers of their own
//! process.

use millstream::client::MaxOutstanding;
use millstream::control::{Code, DeploymentMode, DispatcherConfig, Policy, TargetWorkers, WorkerAddresses};
use millstream::{LocalWorkers, WorkerError};

use super::harness::{distribute, range, sorted, take, times};
use super::mixed::Mixed;
use crate::support::cluster::drain;
use crate::support::consumers::Party;
use crate::support::watched;

/// The tag in its documented spelling.
const COLOCATED: &str = "COLOCATED";
/// The number of elements in the range that most rows read.
const COUNT: i64 = 100;

#[test]
fn worker_tags_test__read_from_local_worker() {
    watched("local worker", || {
        for remotes in [0, 3] {
            let mut mixed = Mixed::start(1, 0, &[COLOCATED]);
            for _ in 0..remotes {
                mixed.add_process(&[COLOCATED]);
            }
            let found = mixed.numbers(COUNT, Policy::Off, TargetWorkers::Auto);
            assert_eq!(found, times(1, COUNT), "in order");
        }
    });
}

#[test]
fn worker_tags_test__read_from_local_and_non_tpu_workers() {
    watched("local and others", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 0), (3, 3)] {
            let mut mixed = Mixed::start(locals, remotes, &[COLOCATED]);
            mixed.add_remote(&[]);
            let found = mixed.sorted(COUNT, Policy::Off, TargetWorkers::Auto);
            assert_eq!(found, times(locals + 1, COUNT));
        }
    });
}

#[test]
fn worker_tags_test__local_worker_has_no_tag() {
    watched("no local tag", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 3)] {
            let mut mixed = Mixed::start(locals, 0, &[]);
            for _ in 0..remotes {
                mixed.add_remote(&[COLOCATED]);
            }
            let found = mixed.sorted(COUNT, Policy::Off, TargetWorkers::Auto);
            assert_eq!(found, times(locals, COUNT));
        }
    });
}

#[test]
fn worker_tags_test__read_from_local_and_non_tpu_workers_dynamic_sharding() {
    watched("dynamic", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 3)] {
            let mut mixed = Mixed::start(locals, remotes, &[COLOCATED]);
            mixed.add_remote(&[]);
            let found = mixed.sorted(COUNT, Policy::Dynamic, TargetWorkers::Auto);
            assert_eq!(found, times(1, COUNT));
        }
    });
}

#[test]
fn worker_tags_test__read_from_local_worker_static_sharding() {
    watched("static sharding", || {
        let config = DispatcherConfig {
            deployment_mode: DeploymentMode::Colocated,
            worker_addresses: WorkerAddresses::new(["127.0.0.1:%port%"; 5]).expect("addresses"),
            ..DispatcherConfig::default()
        };
        let mut mixed = Mixed::with(config, 1, 3, &[COLOCATED]);
        mixed.add_remote(&[]);
        let found = mixed.numbers(COUNT, Policy::FileOrData, TargetWorkers::Auto);
        assert_eq!(found, (0..COUNT).step_by(5).collect::<Vec<_>>());
    });
}

#[test]
fn worker_tags_test__coordinated_read() {
    watched("coordinated read", || {
        let mut mixed = Mixed::start(3, 3, &[COLOCATED]);
        mixed.add_remote(&[]);
        let mut consumers = Party::of(mixed.service(), 4, MaxOutstanding::Auto);
        consumers.read(200 / 4);
        assert_eq!(consumers.steps[..7], [0; 7], "all workers, whatever their tags");
    });
}

#[test]
fn worker_tags_test__add_remote_workers_mid_job() {
    watched("late workers", || {
        let cpus = std::thread::available_parallelism().expect("processors").get();
        let count = 200 + cpus as i64;
        for (locals, remotes) in [(1, 3), (3, 0)] {
            let mut mixed = Mixed::start(locals, remotes, &[COLOCATED]);
            let mut distributed = distribute(mixed.service(), range(count), Policy::Off);
            // With few outstanding elements, the reader does not have all elements before the other workers
            // register.
            distributed.config.max_outstanding = MaxOutstanding::Elements(10);
            let mut reader = distributed.reader();
            let mut found = take(&mut reader, 100);
            for tags in [&[][..], &[], &[COLOCATED], &[COLOCATED]] {
                mixed.add_remote(tags);
            }
            found.extend(drain(&mut reader));
            assert_eq!(sorted(found), times(locals + 2, count));
        }
    });
}

#[test]
fn worker_tags_test__multiple_tags() {
    watched("several tags", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[COLOCATED, "COLOCATED_2", "COLOCATED_3"]);
            let found = mixed.sorted(COUNT, Policy::Off, TargetWorkers::Auto);
            assert_eq!(found, times(locals, COUNT));
        }
    });
}

#[test]
fn worker_tags_test__unused_tags() {
    watched("other tags", || {
        let mixed = Mixed::start(2, 2, &["Unused tag 1", "Unused tag 2", "Unused tag 3"]);
        let found = mixed.sorted(COUNT, Policy::Off, TargetWorkers::Auto);
        assert_eq!(found, times(4, COUNT));
    });
}

#[test]
fn worker_tags_test__invalid_tag() {
    watched("empty tag", || {
        let mixed = Mixed::start(0, 0, &[]);
        let error = mixed
            .worker(LocalWorkers::default(), &[""])
            .expect_err("an empty tag");
        assert!(
            matches!(&error, WorkerError::Dispatcher(error) if error.code == Code::FailedPrecondition),
            "{error}"
        );
        assert!(error.to_string().contains("tag"), "{error}");
    });
}
