//! A worker's end against a client that does anything: it ends the link and says what was wrong. It takes its
//! memory back when the client is gone, and its other links continue (D9.2, D10.2, D10.4, D10.5).

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
use crate::transport::{Body, ClientLink, Downstream, LinkLost, OutPack, WorkerLink};

const ARENA_BYTES: usize = 16 << 20;
const PACK_BYTES: usize = 1000;
/// Packs that the villain is sent at most: enough to run short of room on the ring, and it may keep all and
/// leave memory for others.
const SENT_MAX: u64 = 2000;
const LAYOUT: ControlLayout = ControlLayout::STANDARD;

/// A client that is all by hand.
struct Villain {
    channel: Channel,
    control: Control,
    up: RingSender<Control>,
    down: RingReceiver<Control>,
    returns: ReturnSender<Control>,
}

/// A worker with one hostile client and one good one, which read the same task.
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

    /// Performs a session's step after a wake-up: receives all messages, and sends where there is room.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        // Nothing is written meanwhile, so that what is there ends.
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

    /// The good client gets one more pack, as it was sent.
    async fn serve_good(&mut self) {
        std::future::poll_fn(|cx| self.to_good.poll_ready(cx))
            .await
            .unwrap();
        self.to_good.try_send(pack(&self.arena, self.served)).unwrap();
        let received = std::future::poll_fn(|cx| {
            // The worker's side has to look, too.
            assert!(self.to_good.poll_recv(cx).is_pending());
            self.good.poll_recv(cx)
        });
        let Downstream::Pack(received) = received.await.unwrap() else {
            panic!("no pack")
        };
        let Body::Plain(body) = received.body else {
            panic!("compressed")
        };
        assert!(body.region().iter().all(|byte| *byte == self.served as u8));
        self.served += 1;
    }

    /// Ends the link to the villain for this reason, which must be the villain's fault or wish.
    fn end(&mut self, lost: &LinkLost) {
        assert!(!matches!(lost, LinkLost::Resource(_)), "{lost}");
        self.to_villain.close(lost);
    }

    /// When the villain is gone, and the good client has let go, nothing is in use.
    async fn reclaims_all(self) {
        drop((self.to_villain, self.to_good, self.good));
        until_unused(&self.arena).await;
    }
}

fn pack(arena: &Arena, count: u64) -> Downstream<OutPack> {
    let elements = TaskPack {
        task: TASK,
        first: count,
        pack: pack_in(arena, PACK_BYTES, count as u8),
    };
    Downstream::Pack(OutPack {
        elements,
        compressed: None,
    })
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

    /// The lease of the next pack that was announced; waits for it.
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

/// One thing that no client does.
type Deed = fn(&mut Villain, u64);

/// Things that a hostile client does with the lease of a pack, each with the expected error.
const DEEDS: [(Deed, &str); 17] = [
    (
        |villain, lease| villain.set(LAYOUT.returns.first, lease + 40),
        "it returned lease 40 of",
    ),
    (
        |villain, lease| villain.set(LAYOUT.returns.first, lease + (7 << 32)),
        "which is at lending 1",
    ),
    (
        |villain, lease| {
            for _ in 0..2 {
                villain.returns.send(LeaseNumber::from_word(lease).unwrap());
            }
        },
        "it returned lending 1 of lease 0, which is at lending 2",
    ),
    (|villain, _| villain.set(LAYOUT.returns.first + 1, 9), ""),
    (
        |villain, _| villain.set(LAYOUT.up.tail, u64::MAX),
        "its index of the up ring is 18446744073709551615",
    ),
    (
        |villain, _| villain.set(LAYOUT.up.tail, 40_000),
        "its index of the up ring is 40000, and can be 32768 at most",
    ),
    (
        |villain, _| villain.set(LAYOUT.down.head, 1 << 40),
        "its index of the down ring is 1099511627776",
    ),
    (
        |villain, _| villain.set(LAYOUT.up.tail, 3),
        "a frame in the up ring says it has 0 words",
    ),
    (
        |villain, _| {
            villain.ring_of(LAYOUT.up, &[1, 2, 3]);
            villain.set(LAYOUT.up.first, 1 << 40);
        },
        "a frame in the up ring says it has 1099511627776 words",
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
        "a reader that announces memory",
    ),
    (|villain, _| say(&villain.channel, b"garbage", &[]), "message"),
    (
        |villain, _| say(&villain.channel, &[0; 5000], &[]),
        "a datagram of more than 4096 bytes",
    ),
    (
        |villain, _| {
            let hello = Datagram::ClientHello(ClientHello { version: SHM_VERSION });
            say(&villain.channel, &hello.to_bytes().unwrap(), &[]);
        },
        "it said hello twice",
    ),
    (
        |villain, _| {
            let arena = Datagram::Arena(ArenaAnnouncement {
                arena: 0,
                bytes: 4096,
            });
            say(&villain.channel, &arena.to_bytes().unwrap(), &[nothing().as_fd()]);
        },
        "a reader that announces an arena",
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
                // Nothing that the worker looks at: it goes on, and takes the memory back from who goes.
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
            // What it was lent stays as it is while it may look at it.
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

/// Things that a hostile client does in one step.
#[derive(Debug, Clone)]
enum Act {
    Mischief(Mischief),
    /// Sends a frame, as a ring takes it.
    Frame(Vec<u64>),
    /// Returns a lease that it may have.
    Return {
        lease: u64,
    },
    /// Takes what it was sent, as it should.
    Take,
    /// Lets the worker work.
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
                // It may have confused itself.
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
#[ignore = "for a second process"]
fn random_clients() {
    // The runtime's own files are opened before they are counted.
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

/// The words change between any two looks that the worker takes.
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
                // Until it is told that this is enough.
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
