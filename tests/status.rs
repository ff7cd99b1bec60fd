//! Tests of a service's status as tables, JSON and metrics: the speed of each process, and the wanted number
//! of workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError, ReaderConfig};
use millstream::control::{IterationStatus, Policy, TaskStatus};
use millstream::pipeline::exec::{Functions, PreparedMap};
use millstream::pipeline::graph::{Dataset, Params};

use crate::support::cluster::{Cluster, number, numbers};
use crate::support::exact;
use crate::support::links::Mechanism;
use crate::support::process::{finish, millstream};
use crate::support::{eventually, watched};

/// The time that the workers' function takes for an element. The time is much longer than the reader's time,
/// even on a busy machine.
const WORK: Duration = Duration::from_millis(20);

fn at_work() -> Functions {
    Functions::new().with_map("work", |_, input| {
        Ok(PreparedMap {
            output: input.clone(),
            call: std::sync::Arc::new(|value| {
                thread::sleep(WORK);
                Ok(value)
            }),
        })
    })
}

fn endless_work() -> Dataset {
    Dataset::range(0, i64::MAX, 1).map_declared("work", Params::none(), number())
}

fn only(cluster: &Cluster) -> IterationStatus {
    let status = cluster.service().status().expect("a status");
    status.iterations.first().expect("an iteration").clone()
}

fn printed(cluster: &Cluster, form: &[&str]) -> String {
    let arguments = [&["status", "--dispatcher", &cluster.address], form].concat();
    let finished = finish(millstream(&cluster.key_text, &arguments));
    assert!(finished.status.success(), "{finished:?}");
    finished.stdout
}

/// C11.4
#[test]
fn a_service_names_a_tasks_bottleneck() {
    watched("bottleneck", || {
        let cluster = Cluster::start(Mechanism::Quic, vec![at_work()]);
        let dataset = || endless_work().batch(2, true);
        let id = cluster.service().register(dataset(), None).expect("a dataset");
        let mut reader = cluster.read(dataset(), Policy::Dynamic, MaxOutstanding::Elements(4));
        let canceller = reader.canceller();
        let reading = thread::spawn(move || reader.find_map(Result::err));
        eventually("what holds it up", &Some("map(work)".to_owned()), || {
            let iterations = cluster.service().status().expect("a status").iterations;
            let task = iterations.first().and_then(|row| row.tasks.first());
            task.and_then(|task| task.bottleneck.clone())
        });
        let json: serde_json::Value = serde_json::from_str(&printed(&cluster, &["--json"])).expect("JSON");
        assert_eq!(json["iterations"][0]["tasks"][0]["bottleneck"], "map(work)");
        let tables = printed(&cluster, &[]);
        assert!(
            tables.contains("BOTTLENECK") && tables.contains("map(work)"),
            "{tables}"
        );

        let explained = |key: &str, id: &str| {
            let arguments = ["explain", "--dataset", id, "--dispatcher", &cluster.address];
            finish(millstream(key, &arguments))
        };
        let drawn = explained(&cluster.key_text, id.as_str());
        let expected = dataset().explain().expect("a graph").to_string();
        assert_eq!(drawn.stdout.trim_end(), expected.trim_end(), "{drawn:?}");
        let unknown = explained(&cluster.key_text, "nobody's");
        assert!(unknown.stderr.contains("nobody's"), "{unknown:?}");

        canceller.cancel();
        reading.join().expect("no panic");
    });
}

/// C11.1, C11.2
#[test]
fn a_service_states_paces_and_estimated_workers() {
    watched("paces", || {
        let cluster = Cluster::start(Mechanism::Quic, vec![at_work()]);
        let mut reader = cluster.read(endless_work(), Policy::Dynamic, MaxOutstanding::Elements(4));
        let canceller = reader.canceller();
        let reading = thread::spawn(move || reader.find_map(Result::err));
        // The reader takes no time between elements, so the estimate is four times the current number of
        // workers.
        eventually("estimated workers", &Some(4), || {
            cluster.service().status().expect("a status").workers_estimated
        });
        eventually("all rates are known", &true, || {
            let found = only(&cluster);
            let (task, client) = (&found.tasks[0], &found.clients[0]);
            task.elements_per_s > 0.0 && client.elements_per_s > 0.0
        });
        let found = only(&cluster);
        let (task, client) = (&found.tasks[0], &found.clients[0]);
        assert!(task.element_ns >= Some(WORK.as_nanos() as u64), "{task:?}");
        assert!(client.element_ns < task.element_ns, "{client:?}");
        assert!(task.elements_per_s <= 1.0 / WORK.as_secs_f64() * 1.5, "{task:?}");
        assert!(found.workers_wanted > Some(4), "{found:?}");

        let json: serde_json::Value = serde_json::from_str(&printed(&cluster, &["--json"])).expect("JSON");
        assert_eq!(json["workers_estimated"], 4);
        assert_eq!(json["counts"]["tasks"], 1);
        assert_eq!(json["workers"][0]["address"], cluster.workers[0].address());
        let iteration = &json["iterations"][0];
        assert_eq!(iteration["phase"], "running");
        assert!(iteration["tasks"][0]["element_ns"].as_u64() >= Some(WORK.as_nanos() as u64));
        assert!(iteration["clients"][0]["elements"].as_u64() > Some(0));
        assert!(iteration["sources"][0]["splits_remaining"].as_u64() > Some(0));

        let metrics = printed(&cluster, &["--metrics"]);
        assert!(
            metrics
                .lines()
                .any(|line| line == "millstream_dispatcher_workers_estimated 4"),
            "{metrics}"
        );
        assert!(
            metrics
                .lines()
                .any(|line| line == "millstream_dispatcher_clients 1"),
            "{metrics}"
        );
        let tables = printed(&cluster, &[]);
        assert!(
            tables.contains("4 workers would keep the readers busy"),
            "{tables}"
        );
        assert!(tables.contains("CLIENT"), "{tables}");

        canceller.cancel();
        let ended = reading.join().expect("no panic");
        assert!(matches!(ended, Some(ReadError::Cancelled)), "{ended:?}");
        // Without readers, no estimate is possible.
        eventually("estimated workers", &None, || {
            cluster.service().status().expect("a status").workers_estimated
        });
    });
}

/// Returns functions with a map `work` that waits with the number 0 until the flag is set.
fn stopped_at_first(is_released: Arc<AtomicBool>) -> Functions {
    Functions::new().with_map("work", move |_, input| {
        let is_released = is_released.clone();
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(move |value| {
                let is_first = value[0].as_i64() == Some(0);
                while is_first && !is_released.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(value)
            }),
        })
    })
}

/// C11.1
#[test]
fn early_elements_are_not_yet_the_trainers() {
    watched("early elements", || {
        let is_released = Arc::new(AtomicBool::new(false));
        let functions = || stopped_at_first(is_released.clone());
        let cluster = Cluster::start(Mechanism::Quic, vec![functions(), functions()]);
        let dataset =
            Dataset::range(0, 1 << 40, 1)
                .split_size(10)
                .map_declared("work", Params::none(), number());
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(16),
            ..ReaderConfig::default()
        };
        let mut reader = exact::open(cluster.service(), dataset, &functions(), &config);
        let canceller = reader.reader().canceller();
        let (taken, takes) = mpsc::channel();
        let reading = thread::spawn(move || {
            let is_one = reader.next_element().expect("the reader proceeds").is_some();
            taken.send(is_one).expect("the test listens");
            // The reader stays open until the test has looked at its pace.
            reader
        });
        // The elements of the other worker are early, because the first one is missing.
        eventually("elements of both workers", &true, || {
            let produced = |task: &TaskStatus| task.elements >= 20;
            only(&cluster).tasks.iter().any(produced)
        });
        is_released.store(true, Ordering::Relaxed);
        assert!(takes.recv().expect("the reader proceeds"), "there is an element");
        eventually("the elements that the trainer took", &1, || {
            only(&cluster).clients[0].elements
        });
        canceller.cancel();
        reading.join().expect("no panic");
    });
}

/// C11.1
#[test]
fn a_wait_that_is_given_up_ends() {
    watched("a given-up wait", || {
        let is_released = Arc::new(AtomicBool::new(false));
        let cluster = Cluster::start(Mechanism::Quic, vec![stopped_at_first(is_released.clone())]);
        let mut reader = cluster.read(endless_work(), Policy::Dynamic, MaxOutstanding::Elements(4));
        let waits = |cluster: &Cluster| {
            let waiting = only(cluster).clients[0].waiting;
            waiting.is_some_and(|waiting| waiting > 0.0)
        };
        eventually("a wait", &true, || {
            assert!(reader.wait_element(Duration::from_millis(20)).is_pending());
            waits(&cluster)
        });
        reader.end_wait();
        eventually("a wait after its end", &false, || waits(&cluster));
        is_released.store(true, Ordering::Relaxed);
        let first = reader.next_element().expect("the reader proceeds");
        assert_eq!(first.map(|element| numbers(&element)), Some(vec![0]));
    });
}
