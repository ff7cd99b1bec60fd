//! Consumers that read in step: every step gives all of them elements of one group of one worker, whatever dies meanwhile.

use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError, Reader};
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::EndpointConfig;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{Worker, WorkerConfig};

use crate::support::cluster::{Cluster, LIVENESS, prompt};
use crate::support::consumers::{Party, first_error, groups, job, open, read_apart};
use crate::support::links::Mechanism;
use crate::support::process::{finish, millstream};
use crate::support::proxy::Proxy;
use crate::support::{eventually, watched};

/// D7.6.
#[test]
fn one_element_outstanding_serves_several_workers() {
    watched("one credit", || {
        let cluster = Cluster::plain(Mechanism::Memory, 3);
        Party::of(cluster.service(), 2, MaxOutstanding::Elements(1)).read(60);
    });
}

#[test]
fn workers_that_come_and_go_at_any_time_leave_all_in_step() {
    watched("coming and going", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut party = Party::of(cluster.service(), 3, MaxOutstanding::Elements(7));
        party.read(5);
        for begun in 2..6 {
            let config = WorkerConfig {
                threads: Some(1),
                ..WorkerConfig::new(&cluster.address)
            };
            let late = Worker::start(&cluster.key, config).expect("a worker");
            party.read_until_begun(begun);
            std::mem::replace(&mut cluster.workers[0], late)
                .stop()
                .expect("a farewell");
            party.read(20);
        }
    });
}

/// What each consumer has had stays behind it when its links break.
#[test]
fn a_cut_network_holds_all_up_and_puts_nobody_out_of_step() {
    watched("a cut", || {
        let endpoint = EndpointConfig {
            idle_timeout: Duration::from_millis(600),
            keep_alive: Some(Duration::from_millis(150)),
            ..EndpointConfig::default()
        };
        let mut proxies: Vec<Proxy> = (0..2).map(|_| Proxy::bind()).collect();
        let mut addresses: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        let functions = vec![Functions::new(); 2];
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &endpoint, |config| {
            config.advertise = addresses.pop();
        });
        // The addresses were given from the last to the first.
        for (proxy, worker) in proxies.iter_mut().rev().zip(&cluster.workers) {
            proxy.forward_to(worker.local_addr());
        }
        let mut party = Party::of(cluster.service(), 3, MaxOutstanding::Elements(20));
        for cut in 0..3 {
            party.read(10 + cut);
            proxies.iter().for_each(|proxy| proxy.set_cut(true));
            let links = || {
                cluster
                    .workers
                    .iter()
                    .map(|worker| worker.server().links().len())
                    .sum::<usize>()
            };
            eventually("links", &0, links);
            proxies.iter().for_each(|proxy| proxy.set_cut(false));
        }
        party.read(60);
        assert_eq!(
            party.steps.iter().filter(|first| **first == 0).count(),
            2,
            "a task began anew"
        );
    });
}

/// Each split goes to one worker, and what it gives to all consumers.
#[test]
fn under_dynamic_each_element_goes_to_one_consumer_at_most_once() {
    watched("dynamic", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let dataset = Dataset::range(0, 1 << 20, 1).repeat(None);
        let job = job(cluster.service(), dataset, Policy::Dynamic, 3);
        let mut readers: Vec<Reader> = (0..3)
            .map(|consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let mut all: Vec<i64> = read_apart(&mut readers, 300).concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 900, "a number came twice");
    });
}

/// C9.8.
#[test]
fn a_consumer_that_does_not_come_or_goes_is_named_to_the_others() {
    let config = DispatcherConfig {
        consumer_timeout: LIVENESS,
        ..prompt()
    };
    let of = config.clone();
    watched("a consumer that does not come", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, of, 1);
        let job = job(cluster.service(), groups(3), Policy::Off, 3);
        let mut only = open(cluster.service(), job, 1, MaxOutstanding::Auto).expect("a reader");
        let consumers = vec![0, 2];
        assert_eq!(first_error(&mut only), ReadError::ConsumersLost { consumers });
    });
    watched("a consumer that goes", || {
        let cluster = Cluster::plain_with(Mechanism::Quic, config, 1);
        let mut party = Party::of(cluster.service(), 2, MaxOutstanding::Auto);
        party.read(10);
        drop(party.readers.pop());
        let consumers = vec![1];
        assert_eq!(
            first_error(&mut party.readers[0]),
            ReadError::ConsumersLost { consumers }
        );
    });
}

#[test]
fn the_command_reads_as_a_consumer() {
    watched("millstream read --num-consumers", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let read = |consumer: &str, steps: &str| {
            let what = [
                "read",
                "--dispatcher",
                &cluster.address,
                "--range",
                "1000",
                "--batch",
                "10",
            ];
            let who = [
                "--job-name",
                "pair",
                "--num-consumers",
                "2",
                "--consumer",
                consumer,
                "--steps",
                steps,
            ];
            millstream(&cluster.key_text, &[what.as_slice(), &who].concat())
        };
        let finished = std::thread::scope(|scope| {
            let reading = ["0", "1"].map(|consumer| scope.spawn(move || finish(read(consumer, "50"))));
            reading.map(|finished| finished.join().expect("no panic"))
        });
        for finished in finished {
            assert!(finished.status.success(), "{}", finished.stderr);
            assert!(finished.stdout.contains("500 elements"), "{}", finished.stdout);
        }
    });
}
