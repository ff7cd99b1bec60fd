//! Tests that one process with excessive requests does not block other processes.

use std::time::Instant;

use millstream::client::ReaderConfig;
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::{ClusterKey, EndpointConfig, KeySource, LoadedKey, Role};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::{Cluster, drain};
use crate::support::links::Mechanism;
use crate::support::watchdog::WATCHDOG;
use crate::support::{watched, watched_for};

/// C15.1, C15.2
#[test]
fn hundreds_of_jobs_keep_nobody_out() {
    greedy_reader(600);
}

#[test]
#[ignore = "takes minutes without optimisation: ci/full runs it"]
fn thousands_of_jobs_keep_nobody_out() {
    greedy_reader(5000);
}

/// Creates and opens `jobs` jobs in a process of role `read`, and then checks that other trainers are served.
#[expect(
    clippy::print_stdout,
    reason = "`--nocapture` shows the figures of docs/security.md"
)]
fn greedy_reader(jobs: usize) {
    watched_for(4 * WATCHDOG, "a greedy reader", move || {
        let cluster = Cluster::plain_with(Mechanism::Quic, DispatcherConfig::default(), 2);
        let key = ClusterKey::from_text(&cluster.key_text).expect("a key");
        let greedy = service(&cluster, &key, Role::Read);
        let dataset = cluster
            .service()
            .register(Dataset::range(0, 1000, 1), None)
            .expect("registered");
        let request = ReadRequest::new(dataset, Policy::Dynamic);
        let before = threads();
        let mut open = Vec::new();
        let mut refused = 0;
        for _ in 0..jobs {
            let reader = greedy
                .job(&request)
                .and_then(|job| greedy.read(job, 0, &ReaderConfig::default()));
            match reader {
                Ok(reader) => open.push(reader),
                Err(error) => {
                    assert!(error.to_string().contains("the most for one process"), "{error}");
                    refused += 1;
                }
            }
        }
        assert_eq!((open.len(), refused), (256, jobs - 256));
        println!("{} threads more than before", threads() - before);
        for role in [Role::Read, Role::Submit] {
            let began = Instant::now();
            let other = service(&cluster, &key, role);
            let job = other.job(&request).expect("a job");
            let mut reader = other.read(job, 0, &ReaderConfig::default()).expect("a reader");
            let first = reader.next_element().expect("elements");
            println!(
                "the first element of another trainer of role {role} after {:?}",
                began.elapsed()
            );
            assert!(first.is_some());
            assert_eq!(drain(&mut reader).len(), 999);
        }
    });
}

fn service(cluster: &Cluster, key: &ClusterKey, role: Role) -> Service {
    let text = key.role_key(role).to_text();
    let key: LoadedKey = KeySource::from_setting(&text).load().expect("a key");
    let config = ServiceConfig {
        no_shared_memory: true,
        ..ServiceConfig::default()
    };
    Service::connect(&key, &cluster.address, config).expect("a trainer's side")
}

/// Returns the number of threads of this process, which includes the workers' threads.
fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn tasks_beyond_the_limit_wait_for_others() {
    watched("waiting tasks", || {
        let functions = vec![Functions::new()];
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), |config| {
            config.server.tasks_max = 1;
        });
        let dataset = cluster
            .service()
            .register(Dataset::range(0, 100, 1), None)
            .expect("registered");
        let open = || {
            let job = cluster
                .service()
                .job(&ReadRequest::new(dataset.clone(), Policy::Dynamic));
            let job = job.expect("a job");
            cluster.service().read(job, 0, &ReaderConfig::default())
        };
        let readers = [open(), open(), open()].map(|reader| reader.expect("a reader"));
        for reader in readers {
            let elements = reader.map(|element| element.expect("served"));
            assert_eq!(elements.count(), 100);
        }
    });
}
