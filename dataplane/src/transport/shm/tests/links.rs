//! Tests the promises that only this transport makes: elements are not copied, and readers that keep too much
//! are limited. Memory stays while a reader uses it, and returns afterwards.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use millstream_element::{HeapAlloc, Pack, Slot, SlotAlloc};

use crate::proto::message::{RefusalCode, Refused, TaskId, ToClient};
use crate::proto::receive::ReceiveError;
use crate::proto::send::TaskPack;
use crate::transport::shm::worker::MEMORY_WAIT;
use crate::transport::shm::{Arena, ArenaBudget, Listener, ListenerConfig, accept, connect};
use crate::transport::{
    Admission, Body, ClientLink, Downstream, Doze, LinkLost, Nap, TaskMemory, WorkerLink,
};

pub(super) const TASK: TaskId = TaskId(3);
/// The timeout of all waits, far longer than any step of these tests takes.
pub(super) const WATCHDOG: Duration = Duration::from_secs(60);
const KIB: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct All;

impl Admission for All {
    fn admit(&self, _: TaskId, _: u64, _: u64, _: u64) -> Result<(), ReceiveError> {
        Ok(())
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &HeapAlloc
    }
}

pub(super) struct Memory {
    pub(super) arena: Arc<Arena>,
    pub(super) is_shared: bool,
}

impl TaskMemory for Memory {
    fn arena(&self) -> Option<Arc<Arena>> {
        Some(self.arena.clone())
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

struct Ends {
    worker: Box<WorkerLink>,
    client: Box<ClientLink>,
    arena: Arc<Arena>,
    sent: u64,
}

impl Ends {
    async fn new(arena_bytes: usize, is_shared: bool) -> Ends {
        let budget = ArenaBudget::new(arena_bytes, None);
        let arena = Arc::new(Arena::new(arena_bytes, false, &budget).unwrap());
        let mut listener = Listener::bind(&ListenerConfig::default()).unwrap();
        let address = listener.address().clone();
        let accepted = async { accept(listener.accept().await).await.unwrap() };
        let connected = async { connect(&address, Arc::new(All)).await.unwrap() };
        let (mut worker, client) = tokio::join!(accepted, connected);
        let memory = Memory {
            arena: arena.clone(),
            is_shared,
        };
        worker.attach(TASK, &memory).unwrap();
        Ends {
            worker,
            client,
            arena,
            sent: 0,
        }
    }

    async fn send(&mut self, pack: Pack) {
        let (task, first) = (TASK, self.sent);
        self.sent += pack.len() as u64;
        poll_fn(|cx| self.worker.poll_ready(cx)).await.unwrap();
        let out = TaskPack { task, first, pack };
        self.worker.try_send(Downstream::Pack(out.into())).unwrap();
    }

    async fn receive(&mut self) -> Pack {
        let received = poll_fn(|cx| self.client.poll_recv(cx)).await.unwrap();
        let Downstream::Pack(pack) = received else {
            panic!("expected a pack, found {received:?}")
        };
        match pack.pack {
            Body::Plain(pack) => pack,
            compressed @ Body::Lz4 { .. } => panic!("{compressed:?} on one host"),
        }
    }
}

/// Makes a pack of one element of `bytes` bytes, all of value `mark`.
pub(super) fn pack_in(alloc: &dyn SlotAlloc, bytes: usize, mark: u8) -> Pack {
    let mut slot = alloc.alloc(bytes).unwrap();
    slot.fill(mark);
    Pack::from_parts(slot.freeze(), &[bytes as u64]).unwrap()
}

/// Waits until no memory of the arena is in use.
pub(super) async fn until_unused(arena: &Arena) {
    let unused = async {
        while arena.in_use_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WATCHDOG, unused)
        .await
        .expect("all memory returns in time");
}

/// D10.5.
#[tokio::test]
async fn arena_elements_are_seen_without_a_copy() {
    let mut ends = Ends::new(64 * KIB, false).await;
    let sent = pack_in(&*ends.arena, 10 * KIB, 7);
    ends.send(sent.clone()).await;
    let received = ends.receive().await;
    assert_eq!(received.region()[..], sent.region()[..]);
    assert_ne!(
        received.region().as_ptr(),
        sent.region().as_ptr(),
        "each end has a mapping of its own"
    );
    assert_eq!(
        (
            ends.worker.report().bytes_copied,
            ends.client.report().bytes_copied
        ),
        (0, 0)
    );
    // A pack from outside of the arena is copied, and the copy is counted.
    ends.send(pack_in(&HeapAlloc, 4 * KIB, 9)).await;
    assert_eq!(ends.receive().await.region()[..], [9; 4 * KIB]);
    assert_eq!(ends.worker.report().bytes_copied, 4 * KIB as u64);
    assert_eq!(ends.client.report().bytes_copied, 0);
}

/// D10.6.
#[tokio::test]
async fn only_unshared_slots_can_be_written() {
    for is_shared in [false, true] {
        let mut ends = Ends::new(64 * KIB, is_shared).await;
        let sent = pack_in(&*ends.arena, KIB, 7);
        ends.send(sent).await;
        let received = ends.receive().await;
        assert_eq!(received.region().is_shared(), is_shared);
        let slot: Slot = received.region().clone();
        drop(received);
        match slot.try_into_mut() {
            Ok(mut slot) => {
                assert!(!is_shared, "other readers would see the write");
                slot.fill(8);
            }
            Err(slot) => assert!(is_shared && slot.len() == KIB),
        }
        until_unused_after_a_step(&mut ends).await;
    }
}

/// Lets the worker take back the returned memory until no memory is in use.
async fn until_unused_after_a_step(ends: &mut Ends) {
    let unused = poll_fn(|cx| {
        let ready = ends.worker.poll_ready(cx);
        assert!(!matches!(ready, std::task::Poll::Ready(Err(_))), "{ready:?}");
        if ends.arena.in_use_bytes() == 0 {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    });
    tokio::time::timeout(WATCHDOG, unused)
        .await
        .expect("all memory returns in time");
}

/// D10.4, D10.6.
#[tokio::test]
async fn a_hoarding_reader_copies_and_delays_nobody() {
    let mut ends = Ends::new(64 * KIB, false).await;
    let mut kept = Vec::new();
    for mark in 0..100 {
        let pack = pack_in(&*ends.arena, 4 * KIB, mark);
        ends.send(pack).await;
        kept.push(ends.receive().await);
    }
    // The reader keeps half of the arena, and copies the rest into its own memory.
    let foreign = kept.iter().filter(|pack| pack.region().is_foreign()).count();
    assert_eq!(foreign, 8);
    assert_eq!(ends.client.report().bytes_copied, 92 * 4 * KIB as u64);
    for (mark, pack) in kept.iter().enumerate() {
        assert!(
            pack.region().iter().all(|byte| *byte == mark as u8),
            "pack {mark}"
        );
    }
    // The packs are dropped in another order than they arrived.
    kept.rotate_left(3);
    drop(kept);
    until_unused_after_a_step(&mut ends).await;
}

/// D10.7.
#[tokio::test(start_paused = true)]
async fn views_outlive_their_link_and_return_last() {
    let mut ends = Ends::new(64 * KIB, false).await;
    for mark in [1, 2] {
        let pack = pack_in(&*ends.arena, 8 * KIB, mark);
        ends.send(pack).await;
    }
    let first = ends.receive().await;
    // The second pack is in flight. When the reader drops its end, it gives up packs that it has not
    // received.
    let Ends {
        worker,
        client,
        arena,
        ..
    } = ends;
    drop(client);
    drop(worker);
    assert_eq!(arena.in_use_bytes(), 16 * KIB);
    // The thread that checks for returns runs many times, which must change nothing.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(arena.in_use_bytes(), 16 * KIB);
    assert!(first.region().iter().all(|byte| *byte == 1));
    let view = first.element_slot(0).unwrap();
    drop(first);
    assert!(view.iter().all(|byte| *byte == 1));
    drop(view);
    until_unused(&arena).await;
}

#[tokio::test]
async fn a_task_beyond_the_memory_is_refused() {
    struct Nothing;
    impl TaskMemory for Nothing {
        fn arena(&self) -> Option<Arc<Arena>> {
            None
        }

        fn is_shared(&self) -> bool {
            false
        }
    }
    let mut ends = Ends::new(64 * KIB, false).await;
    let lost = ends.worker.attach(TaskId(4), &Nothing).unwrap_err();
    assert!(
        matches!(&lost, LinkLost::Resource(reason) if reason.contains("task 4")),
        "{lost}"
    );
    poll_fn(|cx| ends.worker.poll_ready(cx)).await.unwrap();
    let elements = TaskPack {
        task: TASK,
        first: 0,
        pack: pack_in(&HeapAlloc, 65 * KIB, 1),
    };
    let lost = ends
        .worker
        .try_send(Downstream::Pack(elements.into()))
        .unwrap_err();
    assert!(
        matches!(&lost, LinkLost::Resource(reason) if reason.contains("--shm-bytes-per-task")),
        "{lost}"
    );
}

/// Polls the worker's end once and returns the result.
async fn step(ends: &mut Ends) -> std::task::Poll<Result<(), LinkLost>> {
    poll_fn(|cx| std::task::Poll::Ready(ends.worker.poll_ready(cx))).await
}

#[tokio::test(start_paused = true)]
async fn only_lasting_want_of_memory_ends_links() {
    let mut ends = Ends::new(64 * KIB, false).await;
    // The reader takes nothing, so nothing can be sent after the ring is full.
    let message = || {
        ToClient::Refused(Refused {
            task: TASK,
            code: RefusalCode::CannotResume,
            message: "x".repeat(KIB),
        })
    };
    while let std::task::Poll::Ready(ready) = step(&mut ends).await {
        ready.unwrap();
        ends.worker.try_send(Downstream::Message(message())).unwrap();
    }
    tokio::time::advance(MEMORY_WAIT * 2).await;
    assert!(
        step(&mut ends).await.is_pending(),
        "the worker must wait for a slow reader"
    );
    while ends
        .client
        .poll_recv(&mut std::task::Context::from_waker(std::task::Waker::noop()))
        .is_ready()
    {}
    // The ring has room now, but no memory is left. The wait for memory begins here.
    let all = ends.arena.alloc(64 * KIB).unwrap();
    ends.send(pack_in(&HeapAlloc, KIB, 1)).await;
    assert!(step(&mut ends).await.is_pending());
    tokio::time::advance(MEMORY_WAIT / 2).await;
    assert!(step(&mut ends).await.is_pending());
    tokio::time::advance(MEMORY_WAIT).await;
    let std::task::Poll::Ready(Err(LinkLost::Resource(reason))) = step(&mut ends).await else {
        panic!("the link still waits for memory")
    };
    assert!(reason.contains("no shared memory for the next"), "{reason}");
    drop(all);
}

/// D10.3.
#[tokio::test]
async fn a_thread_dozing_at_a_link_is_woken() {
    if !Nap::is_supported() {
        return;
    }
    let mut ends = Ends::new(64 * KIB, false).await;
    for mark in 0..20 {
        assert!(ends.client.try_recv().unwrap().is_none());
        let Doze::At(doorbell) = ends.client.doze().unwrap() else {
            panic!("the link has no frame, but no place to sleep either")
        };
        let sleeper = std::thread::spawn(move || {
            let nap = Nap::default();
            nap.begin();
            let since = std::time::Instant::now();
            nap.sleep(&[doorbell], WATCHDOG);
            since.elapsed()
        });
        let pack = pack_in(&*ends.arena, KIB, mark);
        ends.send(pack).await;
        assert!(
            sleeper.join().unwrap() < WATCHDOG,
            "the sleeping thread was not woken"
        );
        assert!(matches!(ends.client.doze().unwrap(), Doze::Awake));
        let Some(Downstream::Pack(pack)) = ends.client.try_recv().unwrap() else {
            panic!("no pack arrived")
        };
        drop(pack);
    }
}
