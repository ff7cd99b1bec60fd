//! Tests of bad input: the error names the faulty input, and the service continues to serve other readers.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError};
use millstream::control::Policy;
use millstream::dataplane::TaskId;
use millstream::dataplane::proto::message::{Hello, RefusalCode, Subscribe, ToClient, ToWorker};
use millstream::dataplane::transport::quic::{self, PathReporter};
use millstream::dataplane::transport::{ClientLink, Downstream};
use millstream::link::{Claims, Endpoint, EndpointConfig, Role, TicketKey};
use millstream::pipeline::exec::{Functions, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, OnError, Params};
use millstream::{ReadRequest, Worker};

use crate::support::cluster::{Cluster, drain, number};
use crate::support::links::{Mechanism, UpTo};
use crate::support::{run, watched};

/// A tar with real pictures.
const SHARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/photos-0000.tar");

#[test]
fn an_undeclared_function_is_refused_at_registration() {
    watched("undeclared", || {
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        let dataset = Dataset::range(0, 10, 1).map("mystery", Params::none());
        let error = cluster
            .service()
            .register(dataset, None)
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("mystery"), "{error}");
        serves_others(&cluster);
    });
}

#[test]
fn an_unknown_function_is_named_to_the_reader() {
    fails_naming(
        "unknown function",
        vec![Functions::new()],
        unknown_function,
        &["mystery"],
    );
}

fn unknown_function() -> Dataset {
    Dataset::range(0, 10, 1).map_declared("mystery", Params::none(), number())
}

#[test]
fn a_panicking_function_spares_its_worker() {
    let functions = Functions::new().with_map("trap", |_, input| {
        let call = |value: Value| match value.first().and_then(|tensor| tensor.as_i64()) {
            Some(7) => panic!("seven is right out"),
            _ => Ok(value),
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let dataset = || Dataset::range(0, 10, 1).map_declared("trap", Params::none(), number());
    fails_naming("panic", vec![functions], dataset, &["trap", "seven is right out"]);
}

#[test]
fn a_panicking_preparation_spares_its_worker() {
    let functions = Functions::new().with_map("fussy", |_, _| panic!("such parameters"));
    let dataset = || Dataset::range(0, 10, 1).map_declared("fussy", Params::none(), number());
    fails_naming("prepare", vec![functions], dataset, &["such parameters"]);
}

#[test]
fn a_vanished_file_is_named() {
    watched("missing file", || {
        let directory = tempfile::tempdir().expect("a directory");
        let shard = directory.path().join("shard.tar");
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        for policy in [Policy::Off, Policy::Dynamic] {
            fs::copy(SHARD, &shard).expect("copied");
            let mut reader = cluster.read(pictures(&shard), policy, MaxOutstanding::Elements(4));
            fs::remove_file(&shard).expect("removed");
            let error = reader.next_element().expect_err("it is gone").to_string();
            assert!(
                error.contains("shard.tar") && error.contains("No such file"),
                "{policy}: {error}"
            );
            serves_others(&cluster);
        }
    });
}

#[test]
fn an_iteration_reads_its_original_files() {
    watched("listed once", || {
        let directory = tempfile::tempdir().expect("a directory");
        let cluster = Cluster::plain(Mechanism::Memory, 2);
        for (policy, times) in [(Policy::Off, 2), (Policy::Dynamic, 1)] {
            let files = ["a", "b", "c", "d"].map(|name| directory.path().join(name));
            files
                .iter()
                .for_each(|file| fs::write(file, "").expect("written"));
            let pattern = directory.path().join("*");
            let dataset = Dataset::files(pattern.to_str().expect("text"));
            let mut reader = cluster.read(dataset, policy, MaxOutstanding::Elements(4));
            for file in &files {
                fs::remove_file(file).expect("removed");
            }
            let mut seen = Vec::new();
            while let Some(element) = reader.next_element().expect("they were listed") {
                let path = element.component(0).expect("a path");
                let path = path.strings().expect("strings");
                seen.extend(path.iter().map(|path| String::from_utf8_lossy(path).into_owned()));
            }
            seen.sort_unstable();
            let listed = files.iter().map(|file| file.to_str().expect("text"));
            let promised: Vec<&str> = listed.flat_map(|file| std::iter::repeat_n(file, times)).collect();
            assert_eq!(seen, promised, "{policy}");
        }
    });
}

#[test]
fn a_pattern_that_matches_nothing_is_named() {
    watched("empty glob", || {
        let directory = tempfile::tempdir().expect("a directory");
        let cluster = Cluster::plain(Mechanism::Memory, 1);
        for pattern in [
            directory.path().join("*.tar"),
            directory.path().join("missing/*.tar"),
        ] {
            let pattern = pattern.to_str().expect("text");
            let dataset = cluster
                .service()
                .register(Dataset::files(pattern), None)
                .expect("registered");
            let request = ReadRequest::new(dataset, Policy::Dynamic);
            let opened = cluster.service().job(&request);
            let opened = opened.and_then(|job| cluster.service().read(job, 0, &Default::default()));
            let error = opened.expect_err("nothing matches").to_string();
            assert!(error.contains(pattern), "{error}");
        }
        serves_others(&cluster);
    });
}

#[test]
fn a_torn_shard_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let torn = directory.path().join("torn.tar");
    let whole = fs::read(SHARD).expect("the example data");
    fs::write(&torn, &whole[..whole.len() / 2]).expect("written");
    let dataset = pictures(&torn);
    fails_naming(
        "torn",
        vec![Functions::new()],
        move || dataset.clone(),
        &["torn.tar"],
    );
}

#[test]
fn an_undecodable_picture_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let broken = directory.path().join("broken.tar");
    let mut bytes = fs::read(SHARD).expect("the example data");
    let start = bytes
        .windows(3)
        .position(|window| window == [0xff, 0xd8, 0xff])
        .expect("a picture");
    // The picture's marker and the bytes after it are overwritten.
    bytes[start..start + 64].fill(0);
    // In a tar, the header of a member is the block before its content.
    let name = &bytes[start - 512..start - 412];
    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let key = name.strip_suffix(".jpg").expect("a picture's name").to_owned();
    fs::write(&broken, &bytes).expect("written");
    let dataset = pictures(&broken).decode_image("jpg");
    fails_naming(
        "broken",
        vec![Functions::new()],
        move || dataset.clone(),
        &["broken.tar", &key],
    );
}

#[test]
fn a_forged_ticket_disturbs_no_others() {
    watched("forged", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut reader = cluster.read(
            Dataset::range(0, 5000, 1),
            Policy::Off,
            MaxOutstanding::Elements(10),
        );
        let first = reader.next_element().expect("elements come").expect("not empty");
        drop(first);
        let claims = Claims {
            client: 1,
            task: 4000,
            consumer: None,
        };
        let forged = TicketKey::generate().expect("randomness").mint(&claims);
        let reply = run(subscribe(
            &cluster,
            &cluster.workers[0],
            forged.as_bytes().to_vec(),
        ));
        let ToClient::Refused(refused) = &reply else {
            panic!("{reply:?}")
        };
        assert_eq!(refused.code, RefusalCode::BadTicket, "{}", refused.message);
        assert_eq!(drain(&mut reader).len(), 4999);
    });
}

/// Returns a worker's answer to a subscription to task 4000 with this ticket.
async fn subscribe(cluster: &Cluster, worker: &Worker, ticket: Vec<u8>) -> ToClient {
    let credentials = cluster.key.credentials(Role::Read).expect("a cluster key");
    let endpoint = Endpoint::client(credentials, EndpointConfig::default()).expect("a free port");
    let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
    let connected = endpoint
        .connect(worker.local_addr(), Role::Worker, alpn, Duration::from_secs(5))
        .await;
    let path = PathReporter::new(endpoint.clone(), connected.expect("connected"));
    let mut link = quic::connect(path, Arc::new(UpTo(0))).await.expect("a link");
    send(&mut link, ToWorker::Hello(Hello::current())).await;
    let subscribe = Subscribe {
        task: TaskId(4000),
        ticket,
        resume_from: 0,
        splits_from: 0,
        trainer_id: None,
        asked_before: 0,
    };
    send(&mut link, ToWorker::Subscribe(subscribe)).await;
    loop {
        let frame = std::future::poll_fn(|cx| {
            // Polling for room flushes the messages that were sent before.
            let _ = link.poll_ready(cx);
            link.poll_recv(cx)
        });
        match frame.await.expect("the link exists") {
            Downstream::Message(ToClient::Hello(_)) => {}
            Downstream::Message(message) => return message,
            Downstream::Pack(pack) => panic!("elements for a forged ticket: {pack:?}"),
        }
    }
}

async fn send(link: &mut Box<ClientLink>, message: ToWorker) {
    std::future::poll_fn(|cx| link.poll_ready(cx))
        .await
        .expect("room");
    link.try_send(message).expect("room");
}

fn pictures(shard: &Path) -> Dataset {
    Dataset::files(shard.to_str().expect("text")).webdataset(["jpg", "cls"], OnError::Raise)
}

/// Checks, under two policies, that reading the dataset fails with an error that contains all `parts`. Other
/// readers must not be disturbed.
fn fails_naming(
    what: &str,
    functions: Vec<Functions>,
    dataset: impl Fn() -> Dataset + Send + 'static,
    parts: &[&str],
) {
    let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    watched(what, move || {
        let cluster = Cluster::start(Mechanism::Memory, functions);
        for policy in [Policy::Off, Policy::Dynamic] {
            let mut reader = cluster.read(dataset(), policy, MaxOutstanding::Elements(4));
            let error = loop {
                match reader.next_element() {
                    Ok(element) => assert!(element.is_some(), "{policy}: ended as if nothing were wrong"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, ReadError::Task { .. }), "{error}");
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{policy}: {text}");
            serves_others(&cluster);
        }
    });
}

fn serves_others(cluster: &Cluster) {
    let mut reader = cluster.read(
        Dataset::range(0, 100, 1),
        Policy::Dynamic,
        MaxOutstanding::Elements(4),
    );
    assert_eq!(drain(&mut reader).len(), 100);
}
