//! The conformance suite of transports, which runs for each transport.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use millstream::dataplane::TaskId;
use millstream::dataplane::proto::message::{Cancel, Hello, ToClient, ToWorker, Yielded};
use millstream::dataplane::proto::send::TaskPack;
use millstream::dataplane::transport::body::compress;
use millstream::dataplane::transport::{Body, Downstream, LinkLost};
use millstream::element::{HeapAlloc, Pack};

use crate::support::elements::pack;
use crate::support::links::{Ends, Mechanism, TASK, UpTo};
use crate::support::run;

macro_rules! for_each_mechanism {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $case() { super::run(super::$case(super::Mechanism::Memory)); })+
        }
        #[cfg(target_os = "linux")]
        mod shm {
            $(#[test] fn $case() { super::run(super::$case(super::Mechanism::Shm)); })+
        }
        mod quic {
            $(#[test] fn $case() { super::run(super::$case(super::Mechanism::Quic)); })+
        }
    };
}

for_each_mechanism!(
    messages_arrive_in_order_both_ways,
    packs_arrive_whole,
    compressed_packs_arrive_whole,
    the_closer_of_a_link_says_why,
    what_is_not_admitted_ends_the_link,
    a_dropped_worker_ends_the_clients_link,
    a_dropped_client_ends_the_workers_link,
    a_reader_that_stops_stops_the_worker_and_loses_nothing,
);

/// D1.1, D2.1.
async fn messages_arrive_in_order_both_ways(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(0))).await;
    // Messages are sent in rounds, because the control stream buffers a bounded number of unread messages.
    for round in 0..20 {
        for total in round * 25..(round + 1) * 25 {
            send_down(
                &mut ends,
                Downstream::Message(ToClient::Yielded(Yielded { task: TASK, total })),
            )
            .await;
            send_up(
                &mut ends,
                ToWorker::Cancel(Cancel {
                    task: TaskId(total),
                    has_all: false,
                }),
            )
            .await;
        }
        for total in round * 25..(round + 1) * 25 {
            let received = receive(&mut ends).await.expect("the link exists");
            let Downstream::Message(ToClient::Yielded(yielded)) = received else {
                panic!("{received:?}")
            };
            assert_eq!(yielded.total, total);
            assert_eq!(
                receive_up(&mut ends).await,
                Ok(ToWorker::Cancel(Cancel {
                    task: TaskId(total),
                    has_all: false
                }))
            );
        }
    }
}

/// D2.2.
async fn packs_arrive_whole(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(u64::MAX))).await;
    let lens: [&[u64]; 5] = [&[64], &[104; 300], &[8, 72, 4096, 200], &[3 << 20], &[1; 2000]];
    for (seed, lens) in lens.iter().enumerate() {
        let sent = pack(lens, seed as u8);
        send_pack(&mut ends, seed as u64 * 10_000, sent.clone()).await;
        let Downstream::Pack(TaskPack {
            task,
            first,
            pack: body,
        }) = receive(&mut ends).await.expect("the link exists")
        else {
            panic!("a message instead of a pack")
        };
        assert_eq!(
            (task, first, body.len()),
            (TASK, seed as u64 * 10_000, lens.len())
        );
        let Body::Plain(received) = body else {
            panic!("compressed although nobody asked")
        };
        assert_eq!(received.region()[..], sent.region()[..]);
        assert!(received.lens().eq(sent.lens()));
    }
}

/// D2.2.
async fn compressed_packs_arrive_whole(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(u64::MAX))).await;
    let lens: [&[u64]; 3] = [&[4096], &[104; 300], &[8, 72, 4096, 200]];
    for (seed, lens) in lens.iter().enumerate() {
        let sent = pack(lens, seed as u8);
        let compressed = compress(&sent, &HeapAlloc).expect("memory");
        let elements = TaskPack {
            task: TASK,
            first: 0,
            pack: compressed.expect("a pack that shrinks"),
        };
        send_down(&mut ends, Downstream::Pack(elements)).await;
        let Downstream::Pack(received) = receive(&mut ends).await.expect("the link exists") else {
            panic!("a message instead of a pack")
        };
        let received = received.pack.open(&HeapAlloc).expect("a whole pack");
        assert_eq!(received.region()[..], sent.region()[..]);
        assert!(received.lens().eq(sent.lens()));
    }
}

/// D1.3.
async fn the_closer_of_a_link_says_why(mechanism: Mechanism) {
    let blamed = LinkLost::Misbehaved("it says that two and two are five".into());
    let heard = LinkLost::Blamed("it says that two and two are five".into());
    let mut ends = mechanism.connect(Arc::new(UpTo(0))).await;
    ends.worker.close(&blamed);
    assert_eq!(receive(&mut ends).await.expect_err("closed"), heard);
    assert!(receive_up(&mut ends).await.is_err());
    let mut ends = mechanism.connect(Arc::new(UpTo(0))).await;
    ends.client.close(&blamed);
    assert_eq!(receive_up(&mut ends).await.expect_err("closed"), heard);
    assert!(receive(&mut ends).await.is_err());
    // The reason of a close is not reported as misbehaviour if the other end is not at fault.
    let mut ends = mechanism.connect(Arc::new(UpTo(0))).await;
    ends.worker.close(&LinkLost::Resource("no chalk".into()));
    let lost = receive(&mut ends).await.expect_err("closed");
    let LinkLost::Closed(reason) = &lost else {
        panic!("{lost}")
    };
    assert!(reason.contains("no chalk"), "{reason}");
}

/// D2.3.
async fn what_is_not_admitted_ends_the_link(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(4096))).await;
    send_pack(&mut ends, 0, pack(&[4096], 0)).await;
    assert!(receive(&mut ends).await.is_ok());
    send_pack(&mut ends, 1, pack(&[4160], 0)).await;
    let lost = receive(&mut ends).await.expect_err("more than was granted");
    let LinkLost::Misbehaved(reason) = &lost else {
        panic!("{lost}")
    };
    assert!(reason.contains("4160") && reason.contains("4096"), "{reason}");
}

async fn a_dropped_worker_ends_the_clients_link(mechanism: Mechanism) {
    let Ends {
        worker, mut client, ..
    } = mechanism.connect(Arc::new(UpTo(0))).await;
    drop(worker);
    assert!(poll_fn(|cx| client.poll_recv(cx)).await.is_err());
}

async fn a_dropped_client_ends_the_workers_link(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(0))).await;
    let Ends { worker, client, .. } = &mut ends;
    let closed = std::mem::replace(client, Mechanism::Memory.connect(Arc::new(UpTo(0))).await.client);
    drop(closed);
    loop {
        match poll_fn(|cx| worker.poll_recv(cx)).await {
            Ok(message) => assert_eq!(message, ToWorker::Hello(Hello::current())),
            Err(_) => return,
        }
    }
}

/// The number of scheduler rounds after which a worker without room counts as blocked.
const ROUNDS_AT_REST: usize = 1000;

async fn a_reader_that_stops_stops_the_worker_and_loses_nothing(mechanism: Mechanism) {
    let mut ends = mechanism.connect(Arc::new(UpTo(u64::MAX))).await;
    let unit = pack(&[1 << 20], 3);
    let (mut sent, mut rounds) = (0, 0);
    // The total is larger than any window, so an unbounded transport would accept all packs.
    while sent < 2048 && rounds < ROUNDS_AT_REST {
        let ready = poll_fn(|cx| Poll::Ready(ends.worker.poll_ready(cx))).await;
        if ready.is_ready() {
            send_pack(&mut ends, sent, unit.clone()).await;
            (sent, rounds) = (sent + 1, 0);
        }
        rounds += 1;
        tokio::task::yield_now().await;
    }
    assert!(sent < 2048, "the worker was never stopped");
    for _ in 0..sent {
        let Downstream::Pack(pack) = receive(&mut ends).await.expect("the link exists") else {
            panic!("no pack")
        };
        let body = pack.pack.open(&HeapAlloc).expect("a whole pack");
        assert_eq!(body.region()[..64], unit.region()[..64]);
    }
}

async fn send_pack(ends: &mut Ends, first: u64, pack: Pack) {
    let elements = TaskPack {
        task: TASK,
        first,
        pack,
    };
    send_down(ends, Downstream::Pack(elements.into())).await;
}

async fn send_down(ends: &mut Ends, frame: Downstream) {
    poll_fn(|cx| ends.worker.poll_ready(cx)).await.expect("room");
    ends.worker.try_send(frame).expect("room");
}

async fn send_up(ends: &mut Ends, message: ToWorker) {
    poll_fn(|cx| ends.client.poll_ready(cx)).await.expect("room");
    ends.client.try_send(message).expect("room");
    tokio::task::yield_now().await;
}

async fn receive(ends: &mut Ends) -> Result<Downstream, LinkLost> {
    poll_fn(|cx| ends.client.poll_recv(cx)).await
}

/// Returns the next message after the opening greeting.
async fn receive_up(ends: &mut Ends) -> Result<ToWorker, LinkLost> {
    loop {
        match poll_fn(|cx| ends.worker.poll_recv(cx)).await {
            Ok(ToWorker::Hello(_)) => {}
            other => return other,
        }
    }
}
