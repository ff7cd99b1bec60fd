//! Tests a worker's end against a client that violates the protocol. The worker ends the link, states the
//! violation, and takes its memory back after the client has exited. The worker's other links continue (D9.2,
//! D10.2, D10.4, D10.5).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::{Context, Poll};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::links::{All, Memory, TASK, pack_in, until_unused};
use super::processes::second_process;
use super::villain::{
    Mischief, goodbye, held_by_this_process, mischief, nothing, on_a_lane, say, until_lost, values,
};
use crate::proto::send::TaskPack;
use crate::transport::shm::channel::Channel;
use crate::transport::shm::control::Control;
use crate::transport::shm::datagram::{ArenaAnnouncement, ClientHello, CloseCode, Datagram, SHM_VERSION};
use crate::transport::shm::layout::{ControlLayout, RingPlace};
use crate::transport::shm::leases::LeaseNumber;
use crate::transport::shm::map::Mapping;
use crate::transport::shm::returns::ReturnSender;
use crate::transport::shm::ring::{RingReceiver, RingSender};
use crate::transport::shm::words::Words;
use crate::transport::shm::{
    Arena, ArenaBudget, GREETING_DEADLINE, Listener, ListenerConfig, accept, connect, greet,
};
use crate::transport::{Body, ClientLink, Downstream, LinkLost, WorkerLink};

const ARENA_BYTES: usize = 16 << 20;
const PACK_BYTES: usize = 1000;
/// Maximum number of packs sent to the villain. The ring runs short of room, but the villain can keep all
/// packs and leave memory for the other client.
const SENT_MAX: u64 = 2000;
const LAYOUT: ControlLayout = ControlLayout::STANDARD;

/// A client whose every message and word the test writes by hand.
struct Villain {
    channel: Channel,
    control: Control,
    up: RingSender<Control>,
    down: RingReceiver<Control>,
    returns: ReturnSender<Control>,
}

/// A worker with a hostile client and a good client, which read the same task.
struct Worker {
    arena: Arc<Arena>,
    to_villain: Box<WorkerLink>,
    sent: u64,
    to_good: Box<WorkerLink>,
    good: Box<ClientLink>,
    served: u64,
}

impl Worker {
    async fn start() -> (Self, Villain) {
        let budget = ArenaBudget::new(ARENA_BYTES, None);
        let arena = Arc::new(Arena::new(ARENA_BYTES, false, &budget).unwrap());
        let mut listener = Listener::bind(&ListenerConfig::default()).unwrap();
        let address = listener.address().clone();
        let greeted = async { greet(&address, GREETING_DEADLINE).await.unwrap() };
        let accepted = async { accept(listener.accept().await).await.unwrap() };
        let (mut to_villain, (channel, offer)) = tokio::join!(accepted, greeted);
        let connected = async { connect(&address, Arc::new(All)).await.unwrap() };
        let accepted = async { accept(listener.accept().await).await.unwrap() };
        let (mut to_good, good) = tokio::join!(accepted, connected);
        let memory = Memory {
            arena: arena.clone(),
            is_shared: true,
        };
        to_villain.attach(TASK, &memory).unwrap();
        to_good.attach(TASK, &memory).unwrap();
        let mapping = Mapping::open(&offer.control, offer.sizes.control_bytes).unwrap();
        let control = Control::new(mapping).unwrap();
        let villain = Villain {
            channel,
            up: RingSender::new(control.clone(), LAYOUT.up),
            down: RingReceiver::new(control.clone(), LAYOUT.down),
            returns: ReturnSender::new(control.clone(), LAYOUT.returns),
            control,
        };
        let worker = Self {
            arena,
            to_villain,
            sent: 0,
            to_good,
            good,
            served: 0,
        };
        (worker, villain)
    }

    /// Performs a session's step after a wake-up: receives all messages, and sends a pack if the link has
    /// room.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        // The loop ends, because the client writes nothing meanwhile.
        while let Poll::Ready(message) = self.to_villain.poll_recv(cx) {
            message?;
        }
        if let Poll::Ready(ready) = self.to_villain.poll_ready(cx) {
            ready?;
            if self.sent == SENT_MAX {
                return Ok(());
            }
            let frame = pack(&self.arena, self.sent);
            self.sent += 1;
            self.to_villain.try_send(frame)?;
        }
        Ok(())
    }

    /// Sends the good client another pack, which must arrive unchanged.
    async fn serve_good(&mut self) {
        std::future::poll_fn(|cx| self.to_good.poll_ready(cx))
            .await
            .unwrap();
        self.to_good.try_send(pack(&self.arena, self.served)).unwrap();
        let received = std::future::poll_fn(|cx| {
            // The worker's end must poll too.
            assert!(self.to_good.poll_recv(cx).is_pending());
            self.good.poll_recv(cx)
        });
        let Downstream::Pack(received) = received.await.unwrap() else {
            panic!("no pack")
        };
        let Body::Plain(body) = received.pack else {
            panic!("compressed")
        };
        assert!(body.region().iter().all(|byte| *byte == self.served as u8));
        self.served += 1;
    }

    /// Ends the link to the villain for a reason that must not be a fault of the worker.
    fn end(&mut self, lost: &LinkLost) {
        assert!(!matches!(lost, LinkLost::Resource(_)), "{lost}");
        self.to_villain.close(lost);
    }

    /// Checks that no memory is in use after both clients have exited.
    async fn reclaims_all(self) {
        drop((self.to_villain, self.to_good, self.good));
        until_unused(&self.arena).await;
    }
}

fn pack(arena: &Arena, count: u64) -> Downstream {
    let elements = TaskPack {
        task: TASK,
        first: count,
        pack: pack_in(arena, PACK_BYTES, count as u8),
    };
    Downstream::Pack(elements.into())
}

impl Villain {
    fn set(&self, at: usize, value: u64) {
        self.control.words()[at].store(value, Release);
    }

    fn ring_of(&self, place: RingPlace, frame: &[u64]) {
        for (at, word) in [frame.len() as u64].iter().chain(frame).enumerate() {
            self.set(place.first + at, *word);
        }
        self.set(place.tail, frame.len() as u64 + 1);
    }

    /// Waits for the next announced pack and returns its lease.
    async fn next_lease(&mut self, worker: &mut Worker) -> u64 {
        let mut words = Vec::new();
        loop {
            std::future::poll_fn(|cx| Poll::Ready(worker.step(cx)))
                .await
                .unwrap();
            while self.down.pop(&mut words).unwrap() {
                if words[0] & 0xff == 2 {
                    return words[6];
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

/// An action that no correct client performs.
type Deed = fn(&mut Villain, u64);

/// The actions of a hostile client, each with a part of the expected error. An empty text means that the
/// worker does not notice the action.
const DEEDS: [(Deed, &str); 17] = [
    (
        |villain, lease| villain.set(LAYOUT.returns.first, lease + 40),
        "invalid lease 40",
    ),
    (
        |villain, lease| villain.set(LAYOUT.returns.first, lease + (7 << 32)),
        "expected generation 1",
    ),
    (
        |villain, lease| {
            for _ in 0..2 {
                villain.returns.send(LeaseNumber::from_word(lease).unwrap());
            }
        },
        "invalid return of lease 0: expected generation 2, found 1",
    ),
    (|villain, _| villain.set(LAYOUT.returns.first + 1, 9), ""),
    (
        |villain, _| villain.set(LAYOUT.up.tail, u64::MAX),
        "in the up ring: expected at most 32768, found 18446744073709551615",
    ),
    (
        |villain, _| villain.set(LAYOUT.up.tail, 40_000),
        "in the up ring: expected at most 32768, found 40000",
    ),
    (
        |villain, _| villain.set(LAYOUT.down.head, 1 << 40),
        "found 1099511627776",
    ),
    (|villain, _| villain.set(LAYOUT.up.tail, 3), "found 0 words"),
    (
        |villain, _| {
            villain.ring_of(LAYOUT.up, &[1, 2, 3]);
            villain.set(LAYOUT.up.first, 1 << 40);
        },
        "found 1099511627776 words",
    ),
    (
        |villain, _| villain.ring_of(LAYOUT.up, &[99, 0]),
        "a frame of unknown kind 0x63",
    ),
    (
        |villain, _| villain.ring_of(LAYOUT.up, &[1, 1 << 20, 0]),
        "131072",
    ),
    (
        |villain, _| villain.ring_of(LAYOUT.up, &[1, 8, u64::MAX]),
        "message",
    ),
    (
        |villain, _| villain.ring_of(LAYOUT.up, &[3, 0, 0]),
        "found a notice about memory",
    ),
    (|villain, _| say(&villain.channel, b"garbage", &[]), "message"),
    (
        |villain, _| say(&villain.channel, &[0; 5000], &[]),
        "a datagram of at most 4096 bytes",
    ),
    (
        |villain, _| {
            let hello = Datagram::ClientHello(ClientHello { version: SHM_VERSION });
            say(&villain.channel, &hello.to_bytes().unwrap(), &[]);
        },
        "found a second one",
    ),
    (
        |villain, _| {
            let arena = Datagram::Arena(ArenaAnnouncement {
                arena: 0,
                bytes: 4096,
            });
            say(&villain.channel, &arena.to_bytes().unwrap(), &[nothing().as_fd()]);
        },
        "found the announcement of an arena",
    ),
];

#[test]
fn a_client_is_told_its_mistake() {
    for (deed, said) in DEEDS {
        on_a_lane(async {
            let (mut worker, mut villain) = Worker::start().await;
            let lease = villain.next_lease(&mut worker).await;
            let _kept = villain.next_lease(&mut worker).await;
            deed(&mut villain, lease);
            if said.is_empty() {
                // The worker does not look at the written word. The worker continues, and takes the memory
                // back after the villain exits.
                for _ in 0..10 {
                    villain.next_lease(&mut worker).await;
                }
                drop(villain);
                return worker.reclaims_all().await;
            }
            let lost = until_lost(|cx| worker.step(cx)).await;
            assert!(
                matches!(&lost, LinkLost::Misbehaved(reason) if reason.contains(said)),
                "{lost}, not {said}"
            );
            worker.end(&lost);
            let close = goodbye(&villain.channel).await;
            assert!(
                close.code == CloseCode::Blamed && close.text.contains(said),
                "{close:?}"
            );
            worker.serve_good().await;
            // The lent memory stays unchanged while the villain may read it.
            let Worker {
                arena,
                to_villain,
                to_good,
                good,
                ..
            } = worker;
            drop((to_villain, to_good, good));
            tokio::task::yield_now().await;
            assert!(arena.in_use_bytes() > 0, "{said}");
            drop(villain);
            until_unused(&arena).await;
        });
    }
}

/// An action of a hostile client in one step.
#[derive(Debug, Clone)]
enum Act {
    Mischief(Mischief),
    /// Puts a frame of arbitrary words on the ring.
    Frame(Vec<u64>),
    /// Returns a lease that the client may hold.
    Return {
        lease: u64,
    },
    /// Takes a frame, like a correct client.
    Take,
    /// Lets the worker take a step.
    Wait,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => mischief().prop_map(Act::Mischief),
        1 => prop::collection::vec(values(), 1..12).prop_map(Act::Frame),
        2 => values().prop_map(|lease| Act::Return { lease }),
        1 => Just(Act::Take),
        3 => Just(Act::Wait),
    ];
    prop::collection::vec(act, 1..60)
}

impl Villain {
    fn act(&mut self, act: Act) {
        match act {
            Act::Mischief(mischief) => mischief.commit(&self.channel, &self.control),
            Act::Frame(words) => {
                // The push may fail, because the villain may have corrupted its own ring.
                let _ = self.up.try_push(&words);
            }
            Act::Return { lease } => {
                if let Some(lease) = LeaseNumber::from_word(lease) {
                    self.returns.send(lease);
                }
            }
            Act::Take => {
                let mut words = Vec::new();
                let _ = self.down.pop(&mut words);
            }
            Act::Wait => {}
        }
    }
}

async fn survives(acts: Vec<Act>) {
    let (mut worker, mut villain) = Worker::start().await;
    let mut lost = None;
    for act in acts {
        let waits = matches!(act, Act::Wait);
        villain.act(act);
        if waits && lost.is_none() {
            tokio::task::yield_now().await;
            lost = std::future::poll_fn(|cx| Poll::Ready(worker.step(cx)))
                .await
                .err();
        }
    }
    worker.serve_good().await;
    drop(villain);
    let lost = match lost {
        Some(lost) => lost,
        None => until_lost(|cx| worker.step(cx)).await,
    };
    worker.end(&lost);
    worker.serve_good().await;
    worker.reclaims_all().await;
}

#[test]
#[ignore = "only for a second process"]
fn random_clients() {
    // The first run opens the runtime's own files, before open files are counted.
    on_a_lane(survives(vec![Act::Wait]));
    let before = held_by_this_process();
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let survived = runner.run(&acts(), |acts| {
        on_a_lane(survives(acts));
        prop_assert_eq!(held_by_this_process(), before);
        Ok(())
    });
    survived.unwrap();
}

#[test]
fn a_wild_client_leaves_nothing_behind() {
    second_process("hostile_client::random_clients", "", nothing());
}

/// The villain changes words at any time between two reads of the worker.
#[test]
fn a_worker_survives_concurrent_client_writes() {
    for round in 0..20_u64 {
        on_a_lane(async {
            let (mut worker, villain) = Worker::start().await;
            let control = villain.control.clone();
            let (tell, told) = std::sync::mpsc::channel::<()>();
            let scribbler = std::thread::spawn(move || {
                let words = control.words();
                let mut number = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                // The thread writes until the channel is dropped.
                while told.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    number ^= number << 13;
                    number ^= number >> 7;
                    number ^= number << 17;
                    let places = [
                        LAYOUT.up.tail,
                        LAYOUT.up.first,
                        LAYOUT.up.first + 1,
                        LAYOUT.up.sender_waits,
                    ];
                    words[places[(number >> 32) as usize % 4]].store(number % 40, Relaxed);
                }
            });
            let lost = until_lost(|cx| worker.step(cx)).await;
            drop(tell);
            scribbler.join().unwrap();
            assert!(matches!(lost, LinkLost::Misbehaved(_)), "{lost}");
            worker.end(&lost);
            worker.serve_good().await;
            drop(villain);
            worker.reclaims_all().await;
        });
    }
}
