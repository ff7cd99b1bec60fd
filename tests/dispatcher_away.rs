//! Tests of a dispatcher that is unreachable or dead for a while. Readers continue with the elements that
//! their workers hold.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, OnLost, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::link::LoadedKey;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::{drain, fresh_key, numbers};
use crate::support::exact::{next_numbers, read_exactly_once};
use crate::support::mortal::Mortal;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::watched;

const WORKERS: usize = 2;
/// The number of elements; each element is a split of its own.
const ELEMENTS: i64 = 1000;
/// The time that the trainer spends on an element.
const STEP: Duration = Duration::from_millis(10);

/// The network cuts the dispatcher off from all processes, while readers and workers still reach each other
/// (C7.4).
#[test]
fn a_cut_off_dispatcher_loses_nothing() {
    watched("a dispatcher behind a cut network", || {
        let (key, text) = fresh_key();
        let dispatcher = Process::start(&text, &["dispatcher", "--bind=127.0.0.1:0", "--liveness-s=3"]);
        let mut proxy = Proxy::bind();
        proxy.forward_to(dispatcher.address.parse().unwrap());
        let address = proxy.address().to_string();
        let workers: Vec<Process> = (0..WORKERS)
            .map(|_| Process::start(&text, &["worker", "--dispatcher", &address]))
            .collect();
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let mut reader = read(&service);
        let mut seen = train(&mut reader, 100);
        proxy.set_cut(true);
        let cut_at = Instant::now();
        // The cut lasts longer than twice the liveness timeout, but not as long as a worker's lease.
        while cut_at.elapsed() < Duration::from_secs(7) && seen.len() < 800 {
            seen.extend(train(&mut reader, 1));
        }
        std::thread::sleep(Duration::from_secs(7).saturating_sub(cut_at.elapsed()));
        proxy.set_cut(false);
        seen.extend(drain(&mut reader));
        assert_eq!(reader.stats().lost_splits, []);
        each_came_once(&seen);
        let status = service.status().unwrap();
        assert!(
            status.workers.iter().all(|worker| worker.dead.is_none()),
            "{status:?}"
        );
        assert_eq!(status.workers.len(), workers.len());
    });
}

/// After three seconds of training, the workers hold work for several seconds, so the dispatcher is not
/// needed (C5.1).
#[test]
fn readers_read_on_while_there_is_no_dispatcher() {
    watched("a dead dispatcher", || {
        let killable = Killable::new();
        let service = killable.service();
        let mut reader = read(&service);
        let mut seen = train(&mut reader, 200);
        killable.dispatcher.kill();
        // The workers hold half of the 800 remaining splits.
        seen.extend(train(&mut reader, 300));
        killable.dispatcher.revive();
        seen.extend(drain(&mut reader));
        assert_eq!(reader.stats().lost_splits, []);
        each_came_once(&seen);
    });
}

/// Readers of an exactly-once job also read on, and their elements keep their order. The chaos case
/// `exactly-once-dispatcher-away` measures the waits of a trainer without a dispatcher for ten seconds.
#[test]
fn exact_readers_read_on_without_a_dispatcher() {
    watched("a dead dispatcher of an exactly-once job", || {
        let killable = Killable::new();
        let service = killable.service();
        let dataset = Dataset::range(0, ELEMENTS, 1).split_size(1);
        let mut reader = read_exactly_once(&service, dataset, 8);
        let mut take = |numbers: std::ops::Range<i64>| {
            for expected in numbers {
                assert_eq!(next_numbers(&mut reader), [expected]);
                std::thread::sleep(STEP);
            }
        };
        take(0..400);
        killable.dispatcher.kill();
        // The workers hold half of the 600 remaining splits.
        take(400..600);
        killable.dispatcher.revive();
        take(600..ELEMENTS);
        assert!(reader.next_element().unwrap().is_none());
    });
}

/// C4.4: the elements of a later split arrive early, and the lease ends before all of them were handed over.
#[test]
fn exact_readers_hand_over_nothing_without_a_lease() {
    watched("an exactly-once job whose reader has no lease", || {
        let killable = Killable::with(&["--client-timeout-s=2"]);
        let service = killable.service();
        let dataset = Dataset::range(0, ELEMENTS, 1).split_size(100);
        let mut reader = read_exactly_once(&service, dataset, 400);
        for expected in 0..=100 {
            assert_eq!(next_numbers(&mut reader), [expected]);
            std::thread::sleep(STEP);
        }
        killable.dispatcher.kill();
        std::thread::sleep(Duration::from_secs(3));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| next_numbers(&mut reader));
            std::thread::sleep(Duration::from_millis(500));
            assert!(!waiting.is_finished());
            killable.dispatcher.revive();
            assert_eq!(waiting.join().unwrap(), [101]);
        });
    });
}

/// The last reports of a reader wait for an unreachable dispatcher (C5.8).
#[test]
fn used_elements_of_leaving_readers_are_not_lost() {
    watched("a reader that leaves a cut-off dispatcher", || {
        let away = Away::new();
        let (leaving, staying) = (away.service(), away.service());
        let mut reader = read(&leaving);
        let mut other = read(&staying);
        let mut used = train(&mut reader, 20);
        away.proxy.set_cut(true);
        used.extend(train(&mut reader, 30));
        drop(reader);
        std::thread::sleep(Duration::from_secs(2));
        away.proxy.set_cut(false);
        let rest = drain(&mut other);
        let lost: BTreeSet<i64> = lost_numbers(&other).collect();
        let named: Vec<&i64> = used.iter().filter(|number| lost.contains(*number)).collect();
        assert!(named.is_empty(), "used elements are named as lost: {named:?}");
        let had: BTreeSet<i64> = used.iter().chain(&rest).copied().collect();
        let missing = (0..ELEMENTS).filter(|number| !had.contains(number) && !lost.contains(number));
        assert_eq!(missing.count(), 0, "elements are missing and nobody was told");
    });
}

/// Closing a service does not wait for an unreachable dispatcher, even if its readers have unsent reports.
#[test]
fn closing_waits_for_no_dispatcher() {
    watched("closing behind a cut network", || {
        let away = Away::new();
        let service = away.service();
        let mut reader = read(&service);
        train(&mut reader, 20);
        away.proxy.set_cut(true);
        train(&mut reader, 30);
        drop(reader);
        let began = Instant::now();
        service.close();
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it waits for the reports"
        );
    });
}

/// Workers, and a dispatcher that can be killed and started again with its records.
struct Killable {
    key: LoadedKey,
    dispatcher: Mortal,
    _folder: tempfile::TempDir,
    _workers: Vec<Process>,
}

impl Killable {
    fn new() -> Killable {
        Killable::with(&[])
    }

    /// Starts the dispatcher with further arguments.
    fn with(arguments: &[&str]) -> Killable {
        let (key, text) = fresh_key();
        let folder = tempfile::tempdir().unwrap();
        let dispatcher = Mortal::start(&text, folder.path(), arguments);
        let worker = || Process::start(&text, &["worker", "--dispatcher", &dispatcher.address]);
        let workers = std::iter::repeat_with(worker).take(WORKERS).collect();
        Killable {
            key,
            dispatcher,
            _folder: folder,
            _workers: workers,
        }
    }

    fn service(&self) -> Service {
        Service::connect(&self.key, &self.dispatcher.address, ServiceConfig::default()).unwrap()
    }
}

/// Workers, and a dispatcher whose network can be cut.
struct Away {
    key: LoadedKey,
    proxy: Proxy,
    _processes: Vec<Process>,
}

impl Away {
    fn new() -> Away {
        let (key, text) = fresh_key();
        let dispatcher = Process::start(&text, &["dispatcher", "--bind=127.0.0.1:0"]);
        let mut proxy = Proxy::bind();
        proxy.forward_to(dispatcher.address.parse().unwrap());
        let address = proxy.address().to_string();
        let worker = || Process::start(&text, &["worker", "--dispatcher", &address]);
        let workers: Vec<Process> = std::iter::repeat_with(worker).take(WORKERS).collect();
        Away {
            key,
            proxy,
            _processes: std::iter::once(dispatcher).chain(workers).collect(),
        }
    }

    fn service(&self) -> Service {
        let address = self.proxy.address().to_string();
        Service::connect(&self.key, &address, ServiceConfig::default()).unwrap()
    }
}

/// Returns the elements that a reader reports as lost; each element is a split of its own.
fn lost_numbers(reader: &Reader) -> impl Iterator<Item = i64> {
    let ranges = reader.stats().lost_splits.into_iter();
    ranges.flat_map(|lost| lost.first as i64..(lost.first + lost.count) as i64)
}

fn read(service: &Service) -> Reader {
    let dataset = service.register(Dataset::range(0, ELEMENTS, 1), None).unwrap();
    let request = ReadRequest::new(dataset, Policy::Dynamic).named("shared");
    let job = service.job(&request).unwrap();
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(8),
        on_lost: OnLost::Ignore,
        ..ReaderConfig::default()
    };
    service.read(job, 0, &config).unwrap()
}

/// Takes up to `elements` elements, and spends time on each of them.
fn train(reader: &mut Reader, elements: usize) -> Vec<i64> {
    let mut seen = Vec::new();
    for element in reader.take(elements) {
        seen.extend(numbers(&element.unwrap()));
        std::thread::sleep(STEP);
    }
    seen
}

fn each_came_once(seen: &[i64]) {
    let distinct: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "a number came twice");
    assert_eq!(distinct.len() as i64, ELEMENTS);
}
