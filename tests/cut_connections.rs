//! Tests of connections that break while all processes live: no element is lost or read twice.

use std::time::Duration;

use millstream::client::{MaxOutstanding, Reader};
use millstream::control::Policy;
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::cluster::{Cluster, numbers};
use crate::support::links::Mechanism;
use crate::support::proxy::Proxy;
use crate::support::{eventually, watched};

const ELEMENTS: usize = 30_000;
const WORKERS: usize = 2;

/// The time without packets after which a connection is closed.
const IDLE: Duration = Duration::from_millis(600);

/// The number of cases. The number is small, because each cut waits for a timeout.
const CASES: u32 = 3;

#[test]
fn cut_connections_lose_nothing_under_off() {
    let last = ELEMENTS * WORKERS;
    for cuts in [vec![1, 4_321, 17_003], vec![last - 1], vec![last]] {
        connections_are_cut(Policy::Off, cuts);
    }
}

#[test]
fn cut_connections_lose_nothing_under_dynamic() {
    for cuts in [vec![1, 4_321, 17_003], vec![ELEMENTS - 1], vec![ELEMENTS]] {
        connections_are_cut(Policy::Dynamic, cuts);
    }
}

proptest! {
    // A failing case prints its cuts, which suffice to repeat it, so shrinking is off.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..rounds(CASES) })]

    #[test]
    fn cuts_anywhere_lose_nothing_under_off(cuts in cuts(ELEMENTS * WORKERS)) {
        connections_are_cut(Policy::Off, cuts);
    }

    #[test]
    fn cuts_anywhere_lose_nothing_under_dynamic(cuts in cuts(ELEMENTS)) {
        connections_are_cut(Policy::Dynamic, cuts);
    }
}

/// The positions of network cuts, in elements read.
fn cuts(last: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..=last, 1..=3)
}

fn connections_are_cut(policy: Policy, cuts: Vec<usize>) {
    let what = format!("{policy}, cut at {cuts:?}");
    watched(&what.clone(), move || {
        let network = Network::start();
        let mut reader = network.cluster.read(
            Dataset::range(0, ELEMENTS as i64, 1),
            policy,
            MaxOutstanding::Elements(100),
        );
        let seen = network.read(&mut reader, &cuts, &what);
        let times = if policy == Policy::Off { WORKERS } else { 1 };
        let promised: Vec<i64> = (0..ELEMENTS as i64)
            .flat_map(|number| std::iter::repeat_n(number, times))
            .collect();
        assert!(
            seen == promised,
            "{what}: read {} numbers, expected {}",
            seen.len(),
            promised.len()
        );
        assert!(
            reader.stats().lost_splits.is_empty(),
            "{what}: nothing is lost while all processes live"
        );
    });
}

/// A cluster with a proxy in front of each worker.
struct Network {
    proxies: Vec<Proxy>,
    cluster: Cluster,
}

impl Network {
    fn start() -> Self {
        let endpoint = EndpointConfig {
            idle_timeout: IDLE,
            keep_alive: Some(IDLE / 4),
            ..EndpointConfig::default()
        };
        let mut proxies: Vec<Proxy> = (0..WORKERS).map(|_| Proxy::bind()).collect();
        let mut addresses = proxies.iter().map(Proxy::address);
        let functions = vec![Functions::new(); WORKERS];
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &endpoint, |config| {
            config.advertise = addresses.next().map(|address| address.to_string());
        });
        drop(addresses);
        for (proxy, worker) in proxies.iter_mut().zip(&cluster.workers) {
            proxy.forward_to(worker.local_addr());
        }
        Self { proxies, cluster }
    }

    /// Reads all numbers in order, and cuts the network at the given positions. After a cut behind the last
    /// number, the reader still has to find the end.
    fn read(&self, reader: &mut Reader, cuts: &[usize], what: &str) -> Vec<i64> {
        let mut seen = Vec::new();
        loop {
            let next = reader.next_element();
            let Some(element) = next.unwrap_or_else(|error| panic!("{what}: {error}")) else {
                break;
            };
            seen.extend(numbers(&element));
            if cuts.contains(&seen.len()) {
                self.cut();
            }
        }
        seen.sort_unstable();
        seen
    }

    /// Drops all packets until the workers have closed every existing link.
    fn cut(&self) {
        self.proxies.iter().for_each(|proxy| proxy.set_cut(true));
        let links = || {
            let links = self
                .cluster
                .workers
                .iter()
                .map(|worker| worker.server().links().len());
            links.sum::<usize>()
        };
        eventually("links", &0, links);
        self.proxies.iter().for_each(|proxy| proxy.set_cut(false));
    }
}
