//! Rows of auto_shard_test: datasets divided among a fixed list of workers. The trainer reads only the worker
//! in its own process.

use millstream::client::{ReadError, Reader};
use millstream::control::{
    Code, DeploymentMode, DispatcherConfig, Error, Policy, TargetWorkers, WorkerAddressError, WorkerAddresses,
};
use millstream::pipeline::graph::{AUTO, Compression, Dataset};
use millstream::{LocalWorkers, Worker, WorkerConfig, WorkerError};

use super::harness::{distribute, range, refusal, times};
use super::record_files::{RecordFiles, by_turns, flat, one_after_the_other, record, text, texts};
use crate::support::cluster::{Cluster, drain, prompt};
use crate::support::links::Mechanism;
use crate::support::watched;

/// The list entry for any worker on the host, like `localhost` in the upstream tests. The workers of these
/// tests have this address.
const HOST: &str = "127.0.0.1";

/// The number of record files that the rows read.
const FILES: usize = 10;

/// Returns the settings of a dispatcher with this list, whose workers run in the trainers' processes.
fn colocated(list: &[&str]) -> DispatcherConfig {
    DispatcherConfig {
        worker_addresses: WorkerAddresses::new(list.iter().copied()).expect("addresses"),
        deployment_mode: DeploymentMode::Colocated,
        ..prompt()
    }
}

/// Starts a service of `workers` workers, one after the other. Worker `local` is in the trainer's process;
/// the other workers behave as in processes of their own.
fn started(config: DispatcherConfig, workers: usize, local: usize) -> Result<Cluster, WorkerError> {
    let mut cluster = Cluster::plain_with(Mechanism::Memory, config, 0);
    for place in 0..workers {
        let local = if place == local {
            cluster.service().local_workers().clone()
        } else {
            LocalWorkers::default()
        };
        let config = WorkerConfig {
            local,
            threads: Some(1),
            ..WorkerConfig::new(&cluster.address)
        };
        let worker = Worker::start(&cluster.key, config)?;
        cluster.workers.push(worker);
    }
    Ok(cluster)
}

/// Runs a row with a service of `workers` workers, all of them in the dispatcher's list.
fn row(what: &str, workers: usize, local: usize, test: impl FnOnce(Cluster) + Send + 'static) {
    watched(what, move || {
        let config = colocated(&vec![HOST; workers]);
        test(started(config, workers, local).expect("workers"));
    });
}

/// Runs a row about files. The trainer's worker is the fourth of five, and reads the files 3 and 8.
fn files_row(what: &str, files: usize, test: impl FnOnce(Cluster, RecordFiles) + Send + 'static) {
    row(what, 5, 3, move |cluster| {
        test(cluster, RecordFiles::write(files))
    });
}

/// Returns a reader of the trainer's own worker.
fn read(cluster: &Cluster, dataset: Dataset, policy: Policy) -> Reader {
    distribute(cluster.service(), dataset, policy)
        .target(TargetWorkers::Local)
        .reader()
}

fn refused(cluster: &Cluster, dataset: Dataset, policy: Policy) -> Error {
    refusal(distribute(cluster.service(), dataset, policy).iterate())
}

/// Returns the error with which the dispatcher refuses a worker, when `workers` workers start.
fn worker_refused(list: &[&str], workers: usize) -> Error {
    match started(colocated(list), workers, 0) {
        Err(WorkerError::Dispatcher(error)) => error,
        Err(other) => panic!("{list:?}: {other}"),
        Ok(_) => panic!("{list:?}: all workers start"),
    }
}

/// For colocated workers, `AUTO` stands for the worker of the reader's process.
#[test]
fn auto_shard_test__range_dataset_auto_shard() {
    row("auto shard", 5, 1, |cluster| {
        for policy in [Policy::Data, Policy::FileOrData] {
            for target in [TargetWorkers::Auto, TargetWorkers::Local] {
                let read = distribute(cluster.service(), range(20), policy).target(target);
                assert_eq!(read.numbers(), [1, 6, 11, 16], "{policy}, {target}");
            }
        }
    });
}

/// Unlike the upstream hint, Millstream's hint has no shard number that could be ignored.
#[test]
fn auto_shard_test__range_dataset_shard_hint() {
    row("hint", 5, 1, |cluster| {
        let hinted = range(20).shard_hint();
        assert_eq!(drain(&mut read(&cluster, hinted, Policy::Hint)), [1, 6, 11, 16]);
    });
}

/// The service refuses the dataset when the job is created; upstream refuses it when it is read.
#[test]
fn auto_shard_test__range_dataset_shard_hint_used_in_wrong_sharding_policy() {
    row("hint under another policy", 5, 1, |cluster| {
        for policy in [Policy::Off, Policy::FileOrData] {
            let error = refused(&cluster, range(20).shard_hint(), policy);
            assert_eq!(error.code, Code::FailedPrecondition, "{error}");
            assert!(error.message.contains("has a shard hint"), "{error}");
        }
    });
}

#[test]
fn auto_shard_test__range_dataset_no_shard() {
    row("no shard", 5, 1, |cluster| {
        assert_eq!(drain(&mut read(&cluster, range(20), Policy::Off)), times(1, 20));
    });
}

#[test]
fn auto_shard_test__range_dataset_one_worker() {
    row("one worker", 1, 0, |cluster| {
        let found = drain(&mut read(&cluster, range(20), Policy::FileOrData));
        assert_eq!(found, times(1, 20));
    });
}

#[test]
fn auto_shard_test__range_dataset_read_from_any_worker() {
    watched("any worker", || {
        let config = DispatcherConfig {
            deployment_mode: DeploymentMode::Unspecified,
            ..colocated(&[HOST; 5])
        };
        let cluster = started(config, 5, 1).expect("workers");
        let read = distribute(cluster.service(), range(20), Policy::FileOrData);
        assert_eq!(read.sorted(), times(1, 20));
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_auto_shard() {
    files_row("files", FILES, |cluster, files| {
        for policy in [Policy::File, Policy::FileOrData] {
            let found = texts(&mut read(&cluster, files.flat(), policy));
            assert_eq!(found, one_after_the_other(&[3, 8]), "{policy}");
        }
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_shuffle_file_list() {
    files_row("shuffled files", FILES, |cluster, files| {
        let mut expected = one_after_the_other(&[3, 8]);
        expected.sort_unstable();
        for policy in [Policy::File, Policy::FileOrData] {
            let listing = Dataset::files_shuffled(files.pattern(), None);
            for paths in [listing, files.files().shuffle(FILES as u64, None)] {
                let mut found = texts(&mut read(&cluster, flat(paths), policy));
                found.sort_unstable();
                assert_eq!(found, expected, "{policy}");
            }
        }
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_data_shard() {
    files_row("records", FILES, |cluster, files| {
        let found = texts(&mut read(&cluster, files.flat(), Policy::Data));
        assert_eq!(found, third_and_eighth(FILES));
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_hint_file_shard() {
    files_row("hinted files", FILES, |cluster, files| {
        let hinted = flat(files.files().shard_hint());
        let found = texts(&mut read(&cluster, hinted, Policy::Hint));
        assert_eq!(found, one_after_the_other(&[3, 8]));
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_fewer_files_than_workers() {
    files_row("fewer files", 4, |cluster, files| {
        for policy in [Policy::File, Policy::FileOrData] {
            let error = read(&cluster, files.flat(), policy).find_map(Result::err);
            let Some(ReadError::Task { failure, .. }) = error else {
                panic!("{policy}: {error:?}")
            };
            assert_eq!(failure.code, "caller", "{failure}");
            let reason = "4 elements, which is not enough for 5 shards";
            assert!(failure.message.contains(reason), "{failure}");
        }
    });
}

#[test]
fn auto_shard_test__tf_record_dataset_fewer_files_than_workers_data_shard() {
    files_row("records of fewer files", 4, |cluster, files| {
        let found = texts(&mut read(&cluster, files.flat(), Policy::Data));
        assert_eq!(found, third_and_eighth(4));
    });
}

#[test]
fn auto_shard_test__interleave_dataset() {
    files_row("interleave", FILES, |cluster, files| {
        let dataset = interleaved(&files).prefetch(FILES as u64);
        let found = texts(&mut read(&cluster, dataset, Policy::FileOrData));
        assert_eq!(found, by_turns(&[3, 8]));
    });
}

#[test]
fn auto_shard_test__zip_dataset() {
    files_row("zip", FILES, |cluster, files| {
        let zip = Dataset::zip([interleaved(&files), interleaved(&files)]).prefetch(FILES as u64);
        let pairs = read(&cluster, zip, Policy::FileOrData).map(|element| {
            let element = element.expect("the reader proceeds");
            (text(&element, 0), text(&element, 1))
        });
        let expected = by_turns(&[3, 8]).into_iter().map(|text| (text.clone(), text));
        assert_eq!(pairs.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    });
}

#[test]
fn auto_shard_test__named_ports() {
    watched("named ports", || {
        let config = colocated(&["127.0.0.1:%port_worker%"; 5]);
        let cluster = started(config, 5, 1).expect("workers");
        let found = drain(&mut read(&cluster, range(20), Policy::FileOrData));
        assert_eq!(found, [1, 6, 11, 16]);
    });
}

/// The upstream list may contain an address five times. This list contains an address with a port once,
/// because only one worker can have it.
#[test]
fn auto_shard_test__invalid_ports() {
    watched("invalid ports", || {
        let invalid = "127.0.0.1:worker";
        let repeated = WorkerAddresses::new([invalid; 5]);
        assert_eq!(repeated, Err(WorkerAddressError::Repeated(invalid.to_owned())));
        let error = worker_refused(&[invalid], 1);
        assert_eq!(error.code, Code::FailedPrecondition, "{error}");
        assert!(
            error.message.contains("is not in this dispatcher's fixed list"),
            "{error}"
        );
    });
}

/// The service refuses the dataset when the job is created; upstream refuses it when it is read.
#[test]
fn auto_shard_test__empty_worker_list() {
    watched("empty list", || {
        let cluster = started(colocated(&[]), 5, 1).expect("workers");
        let error = refused(&cluster, range(20), Policy::FileOrData);
        assert_eq!(error.code, Code::NotFound, "{error}");
        assert!(error.message.contains("a fixed list of workers"), "{error}");
        assert!(error.message.contains("this dispatcher has none"), "{error}");
    });
}

#[test]
fn auto_shard_test__worker_not_found() {
    watched("other names", || {
        let names = [0, 1, 2, 3, 4].map(|number| format!("fake_worker_{number}"));
        let error = worker_refused(&names.each_ref().map(String::as_str), 5);
        assert_eq!(error.code, Code::FailedPrecondition, "{error}");
        assert!(
            error.message.contains("is not in this dispatcher's fixed list"),
            "{error}"
        );
    });
}

#[test]
fn auto_shard_test__more_workers_than_configured() {
    watched("more workers", || {
        let error = worker_refused(&[HOST], 5);
        assert_eq!(error.code, Code::FailedPrecondition, "{error}");
        assert!(error.message.contains("taken by living workers"), "{error}");
    });
}

/// Returns records 3 and 8 of each of `files` files.
fn third_and_eighth(files: usize) -> Vec<String> {
    (0..files)
        .flat_map(|file| [3, 8].map(|number| record(file, number)))
        .collect()
}

/// Returns the records of the files in turn, one record of each file, with the files prefetched.
fn interleaved(files: &RecordFiles) -> Dataset {
    files
        .files()
        .interleave(10, 1, |path| path.tfrecord(Compression::None))
        .parallel(AUTO)
}
