//! Tests of killed readers of a shared job: the elements that such a reader held are reported lost, and the
//! other readers reach their end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use millstream::client::{LostSplits, MaxOutstanding, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::link::KeySource;
use millstream::pipeline::graph::{Dataset, Units};
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::{Cluster, numbers};
use crate::support::links::Mechanism;
use crate::support::losses::next_or_lost;
use crate::support::process::signal;
use crate::support::{eventually, watched};

/// The number of elements, large enough that both readers are still reading when one of them dies.
const ELEMENTS: i64 = 60_000;

/// The environment variables for the process that is killed: dispatcher, key, ledger, and whether the reader
/// uses no shared memory.
const VARIABLES: [&str; 4] = [
    "MILLSTREAM_TEST_DISPATCHER",
    "MILLSTREAM_TEST_KEY",
    "MILLSTREAM_TEST_LEDGER",
    "MILLSTREAM_TEST_NO_SHARED_MEMORY",
];

/// C5.6, C6.7, C6.8, D5.6
#[test]
fn a_killed_readers_splits_are_reported_lost() {
    watched("killed over QUIC", || a_reader_is_killed(Mechanism::Quic));
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_reader_of_this_host_is_reported() {
    watched("killed over shared memory", || a_reader_is_killed(Mechanism::Shm));
}

fn a_reader_is_killed(mechanism: Mechanism) {
    let cluster = Cluster::plain(mechanism, 2);
    let folder = tempfile::tempdir().expect("a folder");
    let victim = Victim::start(&cluster, mechanism, folder.path().join("ledger"));
    let mut survivor = reader(cluster.service());
    eventually("a reader that reads", &true, || !victim.ledger().is_empty());
    let mut seen = Vec::new();
    while victim.ledger().len() < 1000 {
        // The survivor reads in step with the victim, so that each of them gets a part.
        seen.extend(take(&mut survivor, 20));
    }
    victim.kill();
    seen.extend(take(&mut survivor, usize::MAX));
    let lost = survivor.stats().lost_splits;
    let mut all = victim.ledger();
    all.extend(&seen);
    each_came_once_or_is_reported_lost(&all, &lost);
    assert!(
        !lost.is_empty(),
        "what waited in the reader's memory is gone with it"
    );
    let status = cluster.service().status().expect("a status");
    let counted: u64 = lost.iter().map(|lost| lost.count).sum();
    assert_eq!(
        status.iterations[0].splits_lost, counted,
        "{:?}",
        status.iterations
    );
    let mut late = reader(cluster.service());
    assert_eq!(take(&mut late, usize::MAX), Vec::<i64>::new());
    assert_eq!(late.stats().lost_splits, lost, "readers that join late are told");
}

#[test]
fn a_reader_that_leaves_early_is_reported() {
    watched("leaves early", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let (mut first, mut second) = (reader(cluster.service()), reader(cluster.service()));
        let mut seen = take(&mut first, 500);
        seen.extend(take(&mut second, 500));
        drop(first);
        seen.extend(take(&mut second, usize::MAX));
        each_came_once_or_is_reported_lost(&seen, &second.stats().lost_splits);
    });
}

/// C5.8
#[test]
fn readers_that_end_in_good_order_lose_nothing() {
    watched("good order", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let readers: Vec<Reader> = (0..2).map(|_| reader(cluster.service())).collect();
        let readings = readers.into_iter().map(|mut reader| {
            std::thread::spawn(move || {
                let seen = take(&mut reader, usize::MAX);
                (seen, reader.stats().lost_splits)
            })
        });
        let readings: Vec<_> = readings.collect();
        let mut seen = Vec::new();
        for reading in readings {
            let (numbers, lost) = reading.join().expect("it reads to the end");
            seen.extend(numbers);
            assert_eq!(lost, []);
        }
        each_came_once_or_is_reported_lost(&seen, &[]);
        let clients = || cluster.service().status().expect("a status").counts.clients;
        eventually("clients", &0, clients);
        let status = cluster.service().status().expect("a status");
        assert_eq!(status.iterations[0].splits_lost, 0);
    });
}

/// A reader in a separate process that writes each number it has read to a ledger.
struct Victim {
    child: Child,
    ledger: PathBuf,
}

impl Victim {
    fn start(cluster: &Cluster, mechanism: Mechanism, ledger: PathBuf) -> Self {
        File::create(&ledger).expect("a ledger");
        let is_remote = matches!(mechanism, Mechanism::Quic);
        let values = [
            cluster.address.clone(),
            cluster.key_text.clone(),
            ledger.to_str().expect("a path of letters").to_owned(),
            is_remote.to_string(),
        ];
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "dead_readers::reads_in_a_process_of_its_own",
                "--ignored",
            ])
            .envs(VARIABLES.into_iter().zip(values))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        Self { child, ledger }
    }

    /// Returns the elements that the process has read and written completely to its ledger.
    fn ledger(&self) -> Vec<i64> {
        let text = std::fs::read_to_string(&self.ledger).expect("a ledger");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect()
    }

    fn kill(&self) {
        signal(&self.child, "KILL");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "other tests start this test as a process and kill it"]
fn reads_in_a_process_of_its_own() {
    let Ok(dispatcher) = std::env::var(VARIABLES[0]) else {
        return;
    };
    let setting = |place: usize| std::env::var(VARIABLES[place]).expect("set with the first");
    let key = KeySource::from_setting(&setting(1)).load().expect("a key");
    let config = ServiceConfig {
        no_shared_memory: setting(3) == "true",
        ..ServiceConfig::default()
    };
    let service = Service::connect(&key, &dispatcher, config).expect("a service");
    let mut ledger = File::options()
        .append(true)
        .open(Path::new(&setting(2)))
        .expect("a ledger");
    let mut reader = reader(&service);
    while let Ok(Some(element)) = reader.next_element() {
        for number in numbers(&element) {
            ledger
                .write_all(format!("{number}\n").as_bytes())
                .expect("it is written down");
        }
    }
}

/// Returns a reader of the job that all readers share.
fn reader(service: &Service) -> Reader {
    let dataset = service.register(Dataset::range(0, ELEMENTS, 1), None);
    let request = ReadRequest {
        job_name: Some("shared".to_owned()),
        ..ReadRequest::new(dataset.expect("registered"), Policy::Dynamic)
    };
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(300),
        ..ReaderConfig::default()
    };
    let job = service.job(&request).expect("a job");
    service.read(job, 0, &config).expect("a reader")
}

/// Reads up to `elements` elements.
fn take(reader: &mut Reader, elements: usize) -> Vec<i64> {
    let elements = (0..elements).map_while(|_| next_or_lost(reader));
    elements.flat_map(|element| numbers(&element)).collect()
}

fn each_came_once_or_is_reported_lost(seen: &[i64], lost: &[LostSplits]) {
    let distinct: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "a number came twice");
    let units = Units::of(ELEMENTS as u64);
    let splits = lost.iter().flat_map(|lost| lost.first..lost.first + lost.count);
    let reported: BTreeSet<i64> = splits
        .flat_map(|split| units.range(split).expect("a split of the range"))
        .map(|number| number as i64)
        .collect();
    let missing: Vec<i64> = (0..ELEMENTS)
        .filter(|number| !distinct.contains(number) && !reported.contains(number))
        .collect();
    assert!(missing.is_empty(), "missing and not reported: {missing:?}");
    let delivered = distinct.intersection(&reported).count();
    let bound = 64 * units.range(0).expect("a split").count();
    assert!(
        delivered <= bound,
        "{delivered} numbers came and are reported lost"
    );
}
