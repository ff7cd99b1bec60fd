//! The rows of local_workers_test: readers that choose between workers of their own process and other
//! workers.

use millstream::client::ReaderConfig;
use millstream::control::{Code, Policy, TargetWorkers};
use millstream::{LocalWorkers, Service, ServiceConfig, Worker, WorkerConfig};

use super::harness::{Distributed, distribute, from_id, range, refusal, sorted, take, times};
use super::mixed::Mixed;
use crate::support::cluster::{drain, fresh_key};
use crate::support::mortal::Mortal;
use crate::support::{eventually, watched};

/// The number of elements in the range that most rows read.
const COUNT: i64 = 10;

/// Distributes the range to local workers only.
fn local(service: &Service) -> Distributed<'_> {
    distribute(service, range(COUNT), Policy::Off).target(TargetWorkers::Local)
}

#[test]
fn local_workers_test__one_local_worker() {
    watched("one local worker", || {
        let mut mixed = Mixed::start(1, 0, &[]);
        for _ in 0..5 {
            mixed.add_process(&[]);
        }
        let target = "local".parse().expect("it is known in lower case");
        assert_eq!(mixed.numbers(COUNT, Policy::Off, target), times(1, COUNT));
    });
}

#[test]
fn local_workers_test__local_workers() {
    watched("local workers", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 0), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            assert_eq!(local(mixed.service()).sorted(), times(locals, COUNT));
        }
    });
}

#[test]
fn local_workers_test__repeated_dataset() {
    watched("repeated", || {
        for (locals, remotes) in [(1, 0), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            let repeated = local(mixed.service()).repeated(5);
            assert_eq!(sorted(repeated), times(5 * locals, COUNT));
        }
    });
}

#[test]
fn local_workers_test__multiple_epochs() {
    watched("epochs", || {
        for (locals, remotes) in [(1, 3), (3, 0)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            let distributed = local(mixed.service());
            for epoch in 0..10 {
                assert_eq!(distributed.sorted(), times(locals, COUNT), "epoch {epoch}");
            }
        }
    });
}

#[test]
fn local_workers_test__dynamic_sharding() {
    watched("dynamic", || {
        for (locals, remotes) in [(1, 0), (1, 3), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            let found = mixed.sorted(100, Policy::Dynamic, TargetWorkers::Local);
            assert_eq!(found, times(1, 100), "remote workers take no splits");
        }
    });
}

#[test]
fn local_workers_test__empty_dataset() {
    watched("nothing", || {
        for (locals, remotes) in [(1, 0), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            let found = mixed.numbers(0, Policy::Off, TargetWorkers::Local);
            assert!(found.is_empty(), "{found:?}");
        }
    });
}

#[test]
fn local_workers_test__non_local_read() {
    watched("not only local", || {
        for (locals, remotes) in [(0, 1), (0, 3), (3, 1), (3, 3)] {
            let mixed = Mixed::start(locals, remotes, &[]);
            let found = distribute(mixed.service(), range(COUNT), Policy::Off).sorted();
            assert_eq!(found, times(locals + remotes, COUNT));
        }
    });
}

#[test]
fn local_workers_test__no_local_worker() {
    watched("no local worker", || {
        for remotes in [0, 3] {
            let mixed = Mixed::start(0, remotes, &[]);
            let error = refusal(local(mixed.service()).iterate());
            assert_eq!(error.code, Code::InvalidArgument);
            let parts = ["target_workers `local`", "this process has none"];
            assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
        }
    });
}

#[test]
fn local_workers_test__inconsistent_target_workers() {
    watched("two targets", || {
        let mixed = Mixed::start(3, 3, &[]);
        let id = mixed.service().register(range(COUNT), None).expect("registered");
        let shared = |target| {
            from_id(mixed.service(), id.clone(), Policy::Off)
                .named("shared_job")
                .target(target)
        };
        assert_eq!(shared(TargetWorkers::Auto).sorted(), times(6, COUNT));
        for (target, name) in [(TargetWorkers::Any, "any"), (TargetWorkers::Local, "local")] {
            let error = refusal(shared(target).iterate());
            assert_eq!(error.code, Code::InvalidArgument);
            let part = format!("target_workers is auto, not {name}");
            assert!(error.message.contains(&part), "{error}");
        }
    });
}

#[test]
fn local_workers_test__anonymous_job_with_different_target_workers() {
    watched("three targets", || {
        let mixed = Mixed::start(3, 3, &[]);
        for (target, workers) in [
            (TargetWorkers::Auto, 6),
            (TargetWorkers::Any, 6),
            (TargetWorkers::Local, 3),
        ] {
            let found = mixed.sorted(COUNT, Policy::Off, target);
            assert_eq!(found, times(workers, COUNT), "{target}");
        }
    });
}

#[test]
fn local_workers_test__repeat_distributed_dataset() {
    watched("repeat behind", || {
        let mixed = Mixed::start(1, 0, &[]);
        let thrice = [times(1, COUNT), times(1, COUNT), times(1, COUNT)].concat();
        assert_eq!(local(mixed.service()).repeated(3), thrice);
        assert_eq!(local(mixed.service()).named("test").repeated(3), thrice);
    });
}

/// Checks that the tasks of the job "shared" were deleted with their reader. The next reader gets the error
/// when it is opened; upstream reports it at the first element.
fn is_deleted(mixed: &Mixed, other: &Service) {
    let id = mixed.service().register(range(COUNT), None).expect("registered");
    let shared = |service| {
        from_id(service, id.clone(), Policy::Off)
            .named("shared")
            .target(TargetWorkers::Local)
            .iterate()
    };
    let mut reader = shared(mixed.service()).expect("a reader");
    assert_eq!(take(&mut reader, COUNT as usize), times(1, COUNT));
    drop(reader);
    eventually("readers", &0, || {
        mixed.service().status().expect("a status").counts.clients
    });
    let error = refusal(shared(other));
    assert_eq!(error.code, Code::FailedPrecondition, "{error}");
    assert!(error.message.contains("were deleted"), "{error}");
}

#[test]
fn local_workers_test__read_from_deleted_task() {
    watched("deleted task", || {
        let mixed = Mixed::start(1, 0, &[]);
        is_deleted(&mixed, mixed.service());
    });
}

/// A connection of this service corresponds to a session of upstream.
#[test]
fn local_workers_test__read_from_deleted_task_graph_mode() {
    watched("deleted task, two connections", || {
        let mixed = Mixed::start(1, 0, &[]);
        let config = ServiceConfig {
            local: mixed.service().local_workers().clone(),
            ..ServiceConfig::default()
        };
        let other = Service::connect(&mixed.cluster.key, &mixed.cluster.address, config);
        let other = other.expect("another connection");
        is_deleted(&mixed, &other);
        other.close();
    });
}

#[test]
fn local_workers_test__multiple_epochs_worker_restart() {
    watched("worker restart", || {
        let mut mixed = Mixed::start(1, 3, &[]);
        // The test uses job and reader directly, because `distribute` would borrow the service while its
        // workers change.
        let request = local(mixed.service()).request;
        let job = mixed.service().job(&request).expect("a job");
        let open = |mixed: &Mixed, pass| {
            let config = ReaderConfig::default();
            mixed.service().read(job, pass, &config).expect("a reader")
        };
        assert_eq!(take(&mut open(&mixed, 0), 1), [0]);
        let worker = mixed.cluster.workers.remove(0);
        worker.stop().expect("a clean exit");
        mixed.add_local(&[]);
        assert_eq!(drain(&mut open(&mixed, 1)), times(1, COUNT));
    });
}

#[test]
fn local_workers_test__multiple_epochs_dispatcher_restart() {
    watched("dispatcher restart", || {
        let (key, key_text) = fresh_key();
        let directory = tempfile::tempdir().expect("a directory");
        let dispatcher = Mortal::start(&key_text, directory.path(), &[]);
        let here = LocalWorkers::default();
        let workers = [&here, &LocalWorkers::default()].map(|local| {
            let config = WorkerConfig {
                local: local.clone(),
                threads: Some(1),
                ..WorkerConfig::new(&dispatcher.address)
            };
            Worker::start(&key, config).expect("a worker")
        });
        let config = ServiceConfig {
            local: here,
            ..ServiceConfig::default()
        };
        let service = Service::connect(&key, &dispatcher.address, config).expect("a trainer's side");
        let distributed = local(&service);
        assert_eq!(take(&mut distributed.reader(), 1), [0]);
        dispatcher.kill_and_revive();
        assert_eq!(distributed.numbers(), times(1, COUNT));
        service.close();
        for worker in workers {
            worker.stop().expect("a clean exit");
        }
    });
}
