//! Tests of a hostile process that has a key of the cluster. Each of its messages gets the matching error,
//! its effect is bounded, and an honest process is served meanwhile.

use millstream_control::rpc::{Server, ServerConfig};
use millstream_control::{
    ClientPush, Code, Counts, DispatcherConfig, Error, JobId, NAME_BYTES_MAX, TAGS_MAX,
    WORKER_ADDRESS_BYTES_MAX,
};
use millstream_link::Role;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::honest::{HONEST, Honest};
use crate::support::log::Log;
use crate::support::raw::{Raw, Value, framed, list, request};
use crate::support::{Cluster, told, within};

/// An id that the dispatcher never assigned.
const NOBODY: u64 = u64::MAX;
const ROLES: [Role; 3] = [Role::Read, Role::Submit, Role::Worker];

/// A dispatcher that waits patiently for hand-written processes, which send no heartbeats.
pub(crate) fn patient(cluster: &Cluster, configure: impl FnOnce(&mut DispatcherConfig)) -> Server {
    cluster.configured(|config: &mut ServerConfig| {
        config.dispatcher.liveness = DispatcherConfig::default().client_timeout;
        configure(&mut config.dispatcher);
    })
}

#[track_caller]
fn refused(answer: Result<Option<u64>, Error>, what: &str, code: Code, words: &str) {
    let error = answer.expect_err(what);
    assert_eq!(error.code, code, "{what}: {error}");
    assert!(error.message.contains(words), "{what}: {error}");
}

/// One message of each kind, about records that do not exist, with the roles that may send it.
pub(crate) fn every_request() -> [(Value, &'static [Role]); 22] {
    const READERS: &[Role] = &[Role::Read, Role::Submit];
    const WORKERS: &[Role] = &[Role::Worker];
    const SUBMITTERS: &[Role] = &[Role::Submit];
    let n = NOBODY;
    let leases = || list![list![0, n]];
    let worker = || list![list!["evil:1", list![], vec![7; 32], "1.0"]];
    [
        (list![0, list![(), b"10".to_vec()]], SUBMITTERS),
        (list![1, list!["none"]], READERS),
        (list![2, list![(), "none", 0, 0, (), ()]], READERS),
        (list![3, list![n, 0, ()]], READERS),
        (list![4, list![n]], READERS),
        (list![5, list![n]], READERS),
        (list![6, list![n, n, list![leases(), leases(), n]]], READERS),
        (list![7, list![n, n, leases()]], READERS),
        (list![8, list![n, n]], READERS),
        (list![9, list![]], &ROLES),
        (list![10, worker()], WORKERS),
        (list![11, list![]], WORKERS),
        (list![12, list![n]], WORKERS),
        (list![13, list![n, 0, 0, 1]], WORKERS),
        (list![14, list![n, leases()]], WORKERS),
        (list![15, list![n, true, true]], WORKERS),
        (list![16, list![n, "evil"]], WORKERS),
        (list![17, list![n, n, n]], READERS),
        (list![18, list![n, n]], READERS),
        (list![19, list![]], WORKERS),
        (list![20, list!["evil"]], SUBMITTERS),
        (list![21, list![n, leases()]], WORKERS),
    ]
}

/// C1.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_the_role_it_lacks() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        for (session, role) in (1..).zip(ROLES) {
            let raw = Raw::greeted(&cluster, role, server.local_addr(), session).await;
            for (message, _) in every_request().iter().filter(|(_, may)| !may.contains(&role)) {
                let what = format!("{role}: {message:?}");
                let words = format!("`{role}` may not");
                refused(
                    raw.ask(message.clone()).await,
                    &what,
                    Code::PermissionDenied,
                    &words,
                );
            }
        }
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}

/// C4.1, C5.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_things_are_refused_and_unchanged() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let others = honest.task().await;
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Read, server.local_addr(), 1).await;
        let leases = || list![list![0, NOBODY]];
        // The clients of other processes have ids from 3000.
        for client in [NOBODY, 0, 3000, 3001] {
            let mut requests = reports(client, others).to_vec();
            requests.extend([
                list![4, list![client]],
                list![5, list![client]],
                list![6, list![client, others, list![leases(), leases(), NOBODY]]],
                list![18, list![client, others]],
            ]);
            for message in requests {
                let words = format!("there is no client {client} of this process");
                let what = format!("{message:?}");
                refused(raw.ask(message).await, &what, Code::NotFound, &words);
            }
        }
        for (message, words) in [
            (list![3, list![NOBODY, 0, ()]], "there is no job"),
            (list![1, list!["none"]], "there is no dataset none"),
            (
                list![2, list![(), "none", 0, 0, (), ()]],
                "there is no dataset none",
            ),
        ] {
            refused(raw.ask(message).await, words, Code::NotFound, words);
        }
        reports_on_anothers_task(&raw, others).await;
    };
    honest.meanwhile(attack).await;
    let more = Counts {
        jobs: 2,
        iterations: 2,
        tasks: 2,
        ..HONEST
    };
    assert_eq!(honest.counts().await, more);
}

/// Returns the reports that a client may send about a task.
fn reports(client: u64, task: u64) -> [Value; 3] {
    [
        list![7, list![client, task, list![list![0, NOBODY]]]],
        list![8, list![client, task]],
        list![17, list![client, task, NOBODY]],
    ]
}

/// Checks that a client of another iteration cannot report on a task.
async fn reports_on_anothers_task(raw: &Raw, others: u64) {
    // The hostile process creates its own job and becomes a client of it, which any process may do.
    let job = raw.ask(list![2, list!["evil", "honest", 1, 0, (), ()]]).await;
    let open = list![3, list![job.unwrap().unwrap(), 0, ()]];
    let client = raw.ask(open).await.unwrap().unwrap();
    for message in reports(client, others) {
        let what = format!("{message:?}");
        refused(
            raw.ask(message).await,
            &what,
            Code::InvalidArgument,
            "is not of client",
        );
    }
    let empty = list![7, list![client, others, list![list![0, 0]]]];
    refused(
        raw.ask(empty).await,
        "no leases",
        Code::InvalidArgument,
        "has no leases",
    );
    // A report on a task that no longer exists is late, which is not an error.
    for message in reports(client, NOBODY) {
        assert_eq!(raw.ask(message).await.unwrap(), None);
    }
    raw.ask(list![5, list![client]]).await.unwrap();
    for message in [list![4, list![client]], list![5, list![client]]] {
        refused(
            raw.ask(message).await,
            "a released client",
            Code::NotFound,
            "was released",
        );
    }
}

/// C1.8, C7.1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_cannot_touch_anothers_task() {
    let cluster = Cluster::new();
    let earlier = patient(&cluster, |_| {});
    let stale = Honest::new(&cluster, &earlier).await.task().await;
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let others = honest.task().await;
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Worker, server.local_addr(), 1).await;
        let everything = || list![list![0, NOBODY]];
        let requests = |task: u64| {
            [
                list![12, list![task]],
                list![13, list![task, 0, NOBODY, 1]],
                list![14, list![task, everything()]],
                list![21, list![task, everything()]],
            ]
        };
        let ends = |task: u64| [list![15, list![task, true, true]], list![16, list![task, "evil"]]];
        for message in requests(others)
            .into_iter()
            .chain(ends(others))
            .chain([list![19, list![]]])
        {
            let what = format!("{message:?}");
            refused(raw.ask(message).await, &what, Code::Aborted, "not registered");
        }
        let register = |address: &str| list![10, list![list![address, list![], vec![7; 32], "1.0"]]];
        raw.ask(register("evil:1")).await.unwrap();
        for task in [others, stale, NOBODY] {
            for message in requests(task) {
                let what = format!("{message:?}");
                refused(
                    raw.ask(message).await,
                    &what,
                    Code::Aborted,
                    "is not assigned to this worker",
                );
            }
        }
        for message in ends(others) {
            let what = format!("{message:?}");
            refused(
                raw.ask(message).await,
                &what,
                Code::Aborted,
                "is not assigned to this worker",
            );
        }
        let moved = raw.ask(register("evil:2")).await;
        refused(moved, "moving", Code::InvalidArgument, "cannot move");
        raw.ask(list![11, list![]]).await.unwrap();
        refused(
            raw.ask(register("evil:1")).await,
            "one that left",
            Code::Aborted,
            "register again",
        );
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}

/// C1.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unordered_numbers_are_refused_and_repeats_ignored() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Read, server.local_addr(), 1).await;
        let job = |name: &str| list![2, list![name, "honest", 0, 0, (), ()]];
        let first = raw.send(&request(5, 1, job("first"))).await.unwrap();
        for other in [
            job("second"),
            list![5, list![NOBODY]],
            list![3, list![NOBODY, 0, ()]],
        ] {
            assert_eq!(raw.send(&request(5, 1, other)).await.unwrap(), first);
        }
        for (number, settled, code, words) in [
            (0, 1, Code::InvalidArgument, "needs a request number"),
            (257, 1, Code::ResourceExhausted, "comes too early"),
            (NOBODY, 1, Code::ResourceExhausted, "comes too early"),
            (5, 6, Code::InvalidArgument, "its answer forgotten"),
            (1, 6, Code::InvalidArgument, "its answer forgotten"),
            (NOBODY, 6, Code::ResourceExhausted, "comes too early"),
            (6, NOBODY, Code::InvalidArgument, "its answer forgotten"),
            // Settled numbers stay settled.
            (7, 1, Code::InvalidArgument, "its answer forgotten"),
        ] {
            let what = format!("{number}, settled below {settled}");
            refused(
                raw.send(&request(number, settled, job("third"))).await,
                &what,
                code,
                words,
            );
        }
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, Counts { jobs: 2, ..HONEST });
}

/// C1.2, C1.3, C2.3, C9.1, C9.2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_names_and_numbers_name_their_limit() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |config| config.definition_bytes_max = 1000);
    let honest = Honest::new(&cluster, &server).await;
    let long = |bytes: usize| "x".repeat(bytes);
    let job = |name: &str, consumers: u64| list![2, list![name, "honest", 0, 0, consumers, ()]];
    let named = |name: &str| list![2, list![name, "honest", 0, 0, (), ()]];
    let dataset = |id: &str, bytes: usize| list![0, list![id, vec![b'0'; bytes]]];
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Submit, server.local_addr(), 1).await;
        let max = NAME_BYTES_MAX;
        for fits in [dataset(&long(128), 1000), named(&long(max)), job("wide", 4096)] {
            raw.ask(fits).await.unwrap();
        }
        let wide = raw.ask(job("wide", 4096)).await.unwrap().unwrap();
        for (message, words) in [
            (dataset(&long(129), 1), "1 to 128 bytes, not 129"),
            (dataset("", 1), "1 to 128 bytes, not 0"),
            (dataset("../evil", 1), "may hold letters"),
            (dataset("large", 1001), "1001 bytes, more than the limit of 1000"),
            (list![1, list![long(129)]], "1 to 128 bytes, not 129"),
            (named(&long(max + 1)), "1 to 1024 bytes"),
            (named(""), "1 to 1024 bytes"),
            (named(&long(1 << 16)), "longer than the limit of 65536"),
            (job("none", 0), "cannot be 0"),
            (job("many", 4097), "cannot be 4097"),
            (job("many", u32::MAX.into()), "cannot be 4294967295"),
            (job("many", 1 << 32), "cannot be read"),
            (list![2, list!["odd", "honest", 9, 0, (), ()]], "cannot be read"),
            (list![3, list![wide, 0, 4096]], "there is no consumer 4096"),
            (
                list![3, list![wide, 0, u64::from(u32::MAX)]],
                "there is no consumer",
            ),
            (list![3, list![wide, 0, NOBODY]], "cannot be read"),
            (list![3, list![wide, 0, ()]], "say which one this is"),
        ] {
            refused(raw.ask(message).await, words, Code::InvalidArgument, words);
        }
    };
    honest.meanwhile(attack).await;
    let more = Counts {
        datasets: 2,
        jobs: 3,
        ..HONEST
    };
    assert_eq!(honest.counts().await, more);
}

/// C7.1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_absurd_names_is_refused() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let long = |bytes: usize| "x".repeat(bytes);
    let tags = |count: usize, tag: &str| Value::List(vec![Value::from(tag); count]);
    let register = |address: &str, tags: Value, key: usize, version: &str| {
        list![10, list![list![address, tags, vec![7; key], version]]]
    };
    let max = NAME_BYTES_MAX;
    let (invalid, precondition) = (Code::InvalidArgument, Code::FailedPrecondition);
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Worker, server.local_addr(), 1).await;
        for (message, code, words) in [
            (register("", tags(0, ""), 32, ""), invalid, "address has 1 to 300"),
            (
                register(&long(max + 1), tags(0, ""), 32, ""),
                invalid,
                "address has 1 to 300",
            ),
            (
                register("evil:1", tags(TAGS_MAX + 1, "x"), 32, ""),
                precondition,
                "at most 64 tags",
            ),
            (
                register("evil:1", tags(1, &long(max + 1)), 32, ""),
                precondition,
                "at most 512 bytes together",
            ),
            (
                register("evil:1", tags(1, ""), 32, ""),
                precondition,
                "at least 1 byte",
            ),
            (
                register("evil:1", tags(0, ""), 32, &long(max + 1)),
                invalid,
                "a version has at most",
            ),
            (register("evil:1", tags(0, ""), 31, ""), invalid, "cannot be read"),
            (
                register("evil:1", tags(64, &long(max)), 32, ""),
                invalid,
                "longer than the limit of 65536",
            ),
        ] {
            refused(raw.ask(message).await, words, code, words);
        }
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
    let raw = Raw::greeted(&cluster, Role::Worker, server.local_addr(), 2).await;
    let fits = register(
        &long(WORKER_ADDRESS_BYTES_MAX),
        tags(TAGS_MAX, &long(8)),
        32,
        &long(max),
    );
    raw.ask(fits).await.unwrap();
    assert_eq!(honest.counts().await.workers, 2);
}

/// C2.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_datasets_end_at_the_limit() {
    datasets_end_at(200).await;
}

/// C2.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: ci/full runs it"]
async fn datasets_without_number_end_at_the_default_limit() {
    datasets_end_at(DispatcherConfig::default().datasets_max).await;
}

async fn datasets_end_at(limit: usize) {
    let cluster = Cluster::new();
    let server = patient(&cluster, |config| config.datasets_max = limit);
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Submit, server.local_addr(), 1).await;
        let register = || list![0, list![(), b"10".to_vec()]];
        for _ in 1..limit {
            raw.ask(register()).await.unwrap();
        }
        for _ in 0..20 {
            let words = format!("has {limit} datasets");
            refused(
                raw.ask(register()).await,
                "one more",
                Code::ResourceExhausted,
                &words,
            );
        }
    };
    honest.meanwhile(attack).await;
    let more = Counts {
        datasets: limit as u64,
        ..HONEST
    };
    assert_eq!(honest.counts().await, more);
}

/// C1.3, C4.2
#[tokio::test]
async fn unfinished_streams_harm_nobody_else() {
    let (log, _guard) = Log::of_this_thread();
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let endless = Raw::greeted(&cluster, Role::Submit, server.local_addr(), 1).await;
    let mut deaf = Raw::greeted(&cluster, Role::Read, server.local_addr(), 2).await;
    let attack = async {
        let mut open = Vec::new();
        for begun in [
            &b"\x01"[..],
            b"\x02",
            b"\x01\x83",
            b"\x02\x83\x01\x01\x82\x00\x82\xf6\x5a\x00\xff",
        ] {
            // Together the streams reach the limit of one process.
            for _ in 0..16 {
                let (mut send, recv) = endless.connection.open_bi().await.unwrap();
                send.write_all(begun).await.unwrap();
                open.push((send, recv));
            }
        }
        // Each of these clients is answered with its end. The packet with the reason for the disconnection
        // may be lost, so the test reads the dispatcher's log.
        Log::listen_again();
        let clients = Value::List((0..10_000).map(Value::Number).collect());
        deaf.send.write_all(&framed(&list![1, clients])).await.unwrap();
        deaf.closed().await;
        let log = log.text();
        assert!(log.contains("does not take what it is told"), "{log}");
        honest.is_served().await;
        drop(open);
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}

/// Tests that a process without a hello is not answered, whatever it sends (C1.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_its_hello_a_process_is_not_answered() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        let mut request_first = Raw::silent(&cluster, Role::Submit, server.local_addr()).await;
        let status = request(0, 1, list![9, list![]]);
        request_first.send.write_all(&status).await.unwrap();
        let reason = request_first.closed().await;
        assert!(reason.contains("longer than the limit of 65536"), "{reason}");
        let mut silent = Raw::silent(&cluster, Role::Submit, server.local_addr()).await;
        silent.send.write_all(b"\x03").await.unwrap();
        let (mut send, mut recv) = silent.connection.open_bi().await.unwrap();
        send.write_all(&status).await.unwrap();
        send.finish().unwrap();
        assert!(within("the end", recv.read_to_end(1)).await.is_err());
        let reason = silent.closed().await;
        assert!(reason.contains("no hello in time"), "{reason}");
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}

/// Tests that a process's own name does not displace its address, which the dispatcher knows (C12.1).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ender_of_a_service_is_named() {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let honest = Honest::new(&cluster, &server).await;
    let job = JobId(honest.job().await);
    let mut iteration = honest.client.open_iteration(job, 0, None).await.unwrap();
    let raw = Raw::greeted(&cluster, Role::Submit, server.local_addr(), 1).await;
    // The dispatcher may be gone before it has answered.
    let message = request(0, 1, list![20, list!["ä".repeat(30_000)]]);
    let (mut send, _recv) = raw.connection.open_bi().await.unwrap();
    send.write_all(&message).await.unwrap();
    send.finish().unwrap();
    let by = loop {
        if let ClientPush::ShutDown { by } = told(&mut iteration).await {
            break by;
        }
    };
    assert!(by.len() <= NAME_BYTES_MAX, "{} bytes", by.len());
    assert!(by.starts_with('ä') && by.contains(" at 127.0.0.1:"), "{by}");
}

proptest! {
    // A failure prints the bytes, which suffice to repeat the test.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..rounds(4) })]

    /// C1.2, C1.7
    #[test]
    fn random_bytes_are_refused_unnoticed_by_others(
        nonsense in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 8),
        damage in prop::collection::vec((0_usize..22, any::<prop::sample::Index>(), any::<u8>()), 32),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(any_bytes(&nonsense, &damage));
    }
}

async fn any_bytes(nonsense: &[Vec<u8>], damage: &[(usize, prop::sample::Index, u8)]) {
    let cluster = Cluster::new();
    let server = patient(&cluster, |_| {});
    let address = server.local_addr();
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        for (session, bytes) in (10..).zip(nonsense) {
            // The bytes replace a hello, and then a heartbeat.
            for mut raw in [
                Raw::silent(&cluster, Role::Submit, address).await,
                Raw::greeted(&cluster, Role::Worker, address, session).await,
            ] {
                // The message may be refused before it is sent completely.
                raw.send.write_all(bytes).await.ok();
                raw.send.finish().ok();
                raw.closed().await;
            }
        }
        let raw = Raw::greeted(&cluster, Role::Read, address, 1).await;
        for bytes in nonsense {
            assert!(raw.send(bytes).await.is_err(), "{bytes:?}");
        }
        // The damaged message may mean anything. Every damaged message must be answered, and must not be
        // reported as a defect of the dispatcher.
        for (kind, place, byte) in damage {
            let mut bytes = request(1, 1, every_request()[*kind].0.clone());
            let place = place.index(bytes.len());
            bytes[place] = *byte;
            let answer = raw.send(&bytes).await;
            assert!(
                !answer.is_err_and(|error| error.code == Code::Internal),
                "{bytes:?}"
            );
        }
        assert!(raw.connection.close_reason().is_none(), "the connection goes on");
    };
    honest.meanwhile(attack).await;
}
