//! Tests of readers on the workers' host: they use shared memory without configuration and without a copy,
//! and the network if shared memory is off or impossible.

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;

use crate::support::cluster::{Cluster, drain};
use crate::support::links::Mechanism;
use crate::support::watched;

const NUMBERS: i64 = 200_000;

fn dataset() -> Dataset {
    Dataset::range(0, NUMBERS, 1).batch(100, false)
}

/// D10.5.
#[test]
fn a_local_reader_copies_nothing() {
    watched("reading through shared memory", || {
        let cluster = Cluster::plain(Mechanism::Shm, 2);
        let mut reader = cluster.read(dataset(), Policy::Dynamic, MaxOutstanding::Auto);
        let mut read = drain(&mut reader);
        read.sort_unstable();
        assert!(read.into_iter().eq(0..NUMBERS));
        let links = reader.links();
        assert_eq!(links.len(), 2);
        for (worker, link) in links {
            assert_eq!((link.transport, link.bytes_copied), ("shm", 0), "{worker}");
            assert_eq!(link.not_better.as_deref(), Some("other process"));
        }
        for worker in &cluster.workers {
            assert_eq!(worker.server().arenas().fallbacks, 0);
        }
    });
}

#[test]
fn a_reader_may_decline_shared_memory() {
    watched("reading over the network", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut reader = cluster.read(dataset(), Policy::Dynamic, MaxOutstanding::Auto);
        assert_eq!(drain(&mut reader).len() as i64, NUMBERS);
        let link = reader.links().into_values().next().expect("one");
        assert_eq!(link.transport, "quic");
        assert_eq!(
            link.not_better.as_deref(),
            Some("shared memory is switched off for this reader")
        );
    });
}

/// The number of items in an element that is larger than all shared memory.
const LARGE: i64 = 50_000;

/// The last elements of the dataset are too large to be shared. The link through shared memory breaks at
/// these elements, and the network continues at the same position.
#[test]
fn quic_continues_after_broken_shared_memory() {
    for small in [0, 1, 100, 5_000, 30_000] {
        watched(&format!("breaking after {small} numbers"), move || {
            let functions = vec![Functions::new(); 2];
            let scarce = |config: &mut millstream::WorkerConfig| config.shm_bytes = Some(64 << 10);
            let cluster = Cluster::start_with(Mechanism::Shm, functions, &EndpointConfig::default(), scarce);
            let all = small + 4 * LARGE;
            let large = Dataset::range(small, all, 1).batch(LARGE as u64, false);
            let dataset = Dataset::range(0, small, 1).batch(20, false).concatenate(large);
            let mut reader = cluster.read(dataset, Policy::Off, MaxOutstanding::Elements(16));
            let mut read = drain(&mut reader);
            read.sort_unstable();
            let twice = (0..all).flat_map(|number| [number; 2]);
            assert!(read.into_iter().eq(twice), "each worker's elements came once");
            for link in reader.links().into_values() {
                assert_eq!(link.transport, "quic");
                let why = link.not_better.unwrap_or_default();
                assert!(why.starts_with("the link through shared memory broke: "), "{why}");
                assert!(why.contains("--shm-bytes-per-task"), "{why}");
            }
        });
    }
}
