//! Dispatchers that are away for a while: cut off from everybody, or dead. Readers go on with what their workers hold.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::{drain, fresh_key, numbers};
use crate::support::mortal::lasting_address;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::watched;

const WORKERS: usize = 2;
/// Each is a split.
const ELEMENTS: i64 = 1000;
/// What the trainer does with an element.
const STEP: Duration = Duration::from_millis(10);

/// C7.6: everybody falls silent for the dispatcher, and it for them, while readers and workers see each other.
#[test]
fn a_cut_off_dispatcher_loses_nothing() {
    watched("a dispatcher behind a cut network", || {
        let (key, text) = fresh_key();
        let dispatcher = Process::start(&text, &["dispatcher", "--bind=127.0.0.1:0", "--liveness-s=1"]);
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
        // Seven times the dispatcher's limit of silence.
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

/// C5.1: after three seconds of training there is work for seconds at the workers, which no dispatcher is needed for.
#[test]
fn readers_read_on_while_there_is_no_dispatcher() {
    watched("a dead dispatcher", || {
        let (key, text) = fresh_key();
        let folder = tempfile::tempdir().unwrap();
        let address = lasting_address();
        let start = || {
            let folder = folder.path().to_str().unwrap();
            Process::start(&text, &["dispatcher", "--bind", &address, "--work-dir", folder])
        };
        let dispatcher = start();
        let _workers: Vec<Process> = (0..WORKERS)
            .map(|_| Process::start(&text, &["worker", "--dispatcher", &address]))
            .collect();
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let mut reader = read(&service);
        let mut seen = train(&mut reader, 200);
        dispatcher.signal("KILL");
        drop(dispatcher);
        // Of the 800 that are left, workers hold half.
        seen.extend(train(&mut reader, 300));
        let _dispatcher = start();
        seen.extend(drain(&mut reader));
        assert_eq!(reader.stats().lost_splits, []);
        each_came_once(&seen);
    });
}

fn read(service: &Service) -> Reader {
    let dataset = service.register(Dataset::range(0, ELEMENTS, 1), None).unwrap();
    let job = service.job(&ReadRequest::new(dataset, Policy::Dynamic)).unwrap();
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(8),
        ..ReaderConfig::default()
    };
    service.read(job, 0, &config).unwrap()
}

/// Takes so many elements, and spends time with each.
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
