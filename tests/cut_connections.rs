//! Connections that break while all processes live: nothing is lost, nothing comes twice.

use std::time::Duration;

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;

use crate::support::cluster::{Cluster, numbers};
use crate::support::links::Mechanism;
use crate::support::proxy::Proxy;
use crate::support::watched;

const ELEMENTS: i64 = 30_000;
const WORKERS: usize = 2;

/// Silence after which a connection is given up.
const IDLE: Duration = Duration::from_millis(600);

/// Places at which the network is cut, in elements read: in the middle of packs and splits.
const CUTS: [usize; 3] = [1, 4_321, 17_003];

#[test]
fn connections_cut_under_off_lose_nothing_and_repeat_nothing() {
    watched("cut, off", || connections_are_cut(Policy::Off, WORKERS));
}

#[test]
fn connections_cut_under_dynamic_lose_nothing_and_repeat_nothing() {
    watched("cut, dynamic", || connections_are_cut(Policy::Dynamic, 1));
}

fn connections_are_cut(policy: Policy, times: usize) {
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
    let mut reader = cluster.read(
        Dataset::range(0, ELEMENTS, 1),
        policy,
        MaxOutstanding::Elements(100),
    );
    let mut seen = Vec::new();
    while let Some(element) = reader.next_element().expect("the reading goes on") {
        seen.extend(numbers(&element));
        if CUTS.contains(&seen.len()) {
            proxies.iter().for_each(|proxy| proxy.set_cut(true));
            // Until both ends have given the connection up.
            std::thread::sleep(IDLE * 3 / 2);
            proxies.iter().for_each(|proxy| proxy.set_cut(false));
        }
    }
    let sessions = |worker: &millstream::Worker| {
        worker
            .server()
            .counters()
            .sessions
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    assert!(
        cluster.workers.iter().any(|worker| sessions(worker) > 1),
        "no connection was ever made anew"
    );
    seen.sort_unstable();
    let promised: Vec<i64> = (0..ELEMENTS)
        .flat_map(|number| std::iter::repeat_n(number, times))
        .collect();
    assert!(
        seen == promised,
        "{} numbers instead of {}",
        seen.len(),
        promised.len()
    );
    assert!(
        reader.stats().lost_splits.is_empty(),
        "nothing is lost while all processes live"
    );
}
