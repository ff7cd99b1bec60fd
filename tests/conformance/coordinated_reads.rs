//! Coordinated reads: coordinated_read_test and coordinated_read_ft_test.

use std::sync::Arc;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{Code, Policy};
use millstream::pipeline::exec::{Functions, MapCall, PreparedMap, Tensor, Value};
use millstream::pipeline::graph::{Buckets, Cardinality, Dataset, Padding, Params};
use millstream::{ReadRequest, service_reader};

use super::harness::refusal;
use crate::support::cluster::{Cluster, number};
use crate::support::consumers::{Party, groups, job, open, read_apart, read_to_the_end};
use crate::support::links::Mechanism;
use crate::support::process::Process;
use crate::support::{eventually, watched};

#[test]
fn coordinated_read_test__basic() {
    for workers in [1, 3] {
        for consumers in [1, 2, 5] {
            watched(&format!("{workers} workers, {consumers} consumers"), move || {
                let cluster = Cluster::plain(Mechanism::Quic, workers);
                let mut party = Party::of(cluster.service(), consumers, MaxOutstanding::Auto);
                party.read(100);
                assert_eq!(
                    party.steps[..workers],
                    vec![0; workers],
                    "each worker has its turn in a round"
                );
                assert_eq!(party.steps.iter().filter(|first| **first == 0).count(), workers);
            });
        }
    }
}

/// Registers the function `bucket`, which maps a batch to the bucket of its lengths.
fn with_bucket() -> Functions {
    let call = |value: Value| {
        let length = value.first().and_then(|batch| batch.row(0)?.as_i64());
        let bucket = length.ok_or("an empty batch")? / BUCKET;
        Ok(Value::from_iter([Tensor::i64(bucket)]))
    };
    let call: MapCall = Arc::new(call);
    Functions::new().with_map("bucket", move |_, _| {
        Ok(PreparedMap {
            output: number(),
            call: call.clone(),
        })
    })
}

/// The number of lengths in a bucket.
const BUCKET: i64 = 30;

/// In each step, all consumers get a batch of the same bucket.
#[test]
fn coordinated_read_test__bucketizing() {
    const CONSUMERS: u32 = 15;
    watched("buckets", || {
        let cluster = Cluster::start(Mechanism::Quic, vec![with_bucket(); 4]);
        let lengths = Dataset::range(0, 3 * BUCKET, 1)
            .shuffle(3 * BUCKET as u64, None)
            .repeat(None);
        let buckets = Buckets {
            boundaries: vec![BUCKET, 2 * BUCKET],
            batch_sizes: vec![10; 3],
            padding: Padding::None,
            drop_remainder: true,
        };
        let batches = lengths.bucket_by_sequence_length(|length| length, buckets);
        let of_one_bucket = batches.group_by_window(
            |batch| batch.map_declared("bucket", Params::none(), number()),
            u64::from(CONSUMERS),
            |window| window,
        );
        let job = job(cluster.service(), of_one_bucket, Policy::Off, CONSUMERS);
        let readers =
            (0..CONSUMERS).map(|consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto));
        let mut readers: Vec<Reader> = readers.map(|reader| reader.expect("a reader")).collect();
        let rows = read_apart(&mut readers, 4 * 4);
        for step in 0..4 * 4 {
            let mut buckets: Vec<i64> = rows.iter().map(|row| row[step] / BUCKET).collect();
            buckets.dedup();
            assert_eq!(buckets.len(), 1, "step {step}");
        }
    });
}

/// C9.2.
#[test]
fn coordinated_read_test__consumer_restart() {
    watched("a second set of consumers", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let job = job(cluster.service(), groups(3), Policy::Off, 3);
        let open = |consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto);
        let mut readers: Vec<Reader> = (0..3).map(|consumer| open(consumer).expect("a reader")).collect();
        read_apart(&mut readers, 20);
        for again in 0..3 {
            // The service refuses the read when the reader is opened; upstream refuses its first element.
            let error = refusal(open(again));
            assert_eq!(error.code, Code::FailedPrecondition, "{error}");
            let who = format!("consumer {again}");
            let parts = [&who, "current round is past its first", "new repetition"];
            assert!(parts.iter().all(|part| error.message.contains(*part)), "{error}");
        }
        drop(readers.remove(0));
        assert!(open(0).is_err(), "it has begun before");
        assert!(open(3).expect_err("there are three").to_string().contains('3'));
    });
}

/// The end of this dataset is unknown before the worker reaches it (D7.5). Upstream fails here; a coordinated
/// read ends in the same step for all consumers.
#[test]
fn coordinated_read_test__finite_v1() {
    watched("the end of the data", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let inputs = [1.0, 1.0].map(|weight| (weight, Dataset::range(0, 50, 1)));
        let unknown = Dataset::sample(inputs, Some(1), true);
        let job = job(cluster.service(), unknown, Policy::Off, 2);
        let mut readers: Vec<Reader> = (0..2)
            .map(|consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let rows = read_to_the_end(&mut readers);
        assert!(!rows[0].is_empty());
        assert_eq!(rows[0].len(), rows[1].len(), "they end in the same step");
    });
}

/// C9.1. Upstream refuses a finite dataset; a coordinated read ends with its dataset.
#[test]
fn coordinated_read_test__finite_v2() {
    watched("finite", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let job = job(cluster.service(), Dataset::range(0, 101, 1), Policy::Off, 2);
        let mut readers: Vec<Reader> = (0..2)
            .map(|consumer| open(cluster.service(), job, consumer, MaxOutstanding::Auto).expect("a reader"))
            .collect();
        let rows = read_to_the_end(&mut readers);
        // The last number fills no round, so that no consumer receives it.
        assert!(rows[0].iter().copied().eq((0..100).step_by(2)), "{:?}", rows[0]);
        assert!(rows[1].iter().copied().eq((1..100).step_by(2)), "{:?}", rows[1]);
    });
}

#[test]
fn coordinated_read_test__cardinality() {
    watched("as a source", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let dataset = cluster.service().register(groups(1), None).expect("registered");
        let request = ReadRequest::new(dataset, Policy::File)
            .named("in step")
            .coordinated(1);
        let config = ReaderConfig {
            consumer: Some(0),
            ..ReaderConfig::default()
        };
        let source = service_reader::dataset(cluster.service(), &request, &config);
        let graph = source.expect("known").graph().expect("a graph");
        let facts = graph.facts(&Functions::new()).expect("facts");
        assert_eq!(facts.cardinality, Cardinality::Infinite);
    });
}

/// The worker is killed, so it sends no goodbye.
#[test]
fn coordinated_read_ft_test__restart_worker() {
    watched("SIGKILL", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let mut workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
        let mut party = Party::of(cluster.service(), 5, MaxOutstanding::Auto);
        party.read(20);
        workers.pop().expect("three").signal("KILL");
        party.read(40);
        written_off(&cluster, 1);
        workers.push(Process::worker(&cluster));
        party.read_until_begun(4);
    });
}

/// Waits until `workers` workers count as dead. Before the removal of a worker, its consumers continue with
/// the other workers.
fn written_off(cluster: &Cluster, workers: usize) {
    eventually("workers written off", &workers, || cluster.dead_workers());
}
