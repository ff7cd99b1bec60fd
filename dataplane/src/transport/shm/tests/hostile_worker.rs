//! Tests a client's end against a worker that violates the protocol. The client ends the link, states the
//! violation, and releases the worker's memory (D9.2, D9.4, D10.2, D10.5).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::{Context, Poll};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::links::{All, Memory, TASK, pack_in};
use super::processes::second_process;
use super::villain::{
    Mischief, goodbye, held_by_this_process, mischief, nothing, on_a_lane, say, unsealed, until_lost, values,
};
use crate::proto::send::TaskPack;
use crate::transport::shm::channel::Channel;
use crate::transport::shm::control::Control;
use crate::transport::shm::datagram::{ArenaAnnouncement, CloseCode, Datagram, SHM_VERSION, WorkerHello};
use crate::transport::shm::frame::{self, PackFrame};
use crate::transport::shm::layout::ControlLayout;
use crate::transport::shm::map::Mapping;
use crate::transport::shm::ring::RingSender;
use crate::transport::shm::words::Words;
use crate::transport::shm::{
    Arena, ArenaBudget, GREETING_DEADLINE, Listener, ListenerConfig, Offer, accept, connect,
};
use crate::transport::{Body, ClientLink, Downstream, LinkLost};

const ARENA_BYTES: u64 = 1 << 20;
const LAYOUT: ControlLayout = ControlLayout::STANDARD;

/// A worker whose every message and word the test writes by hand.
struct Villain {
    channel: Channel,
    control: Control,
    down: RingSender<Control>,
    arena: OwnedFd,
    memory: Mapping,
}

/// A client, and the packs that it keeps.
struct Client {
    link: Box<ClientLink>,
    kept: Vec<TaskPack<Body>>,
}

async fn linked() -> (Client, Villain) {
    let mut listener = Listener::bind(&ListenerConfig::default()).unwrap();
    let address = listener.address().clone();
    let (control_fd, mapping) = Mapping::create("test", LAYOUT.bytes()).unwrap();
    let control = Control::new(mapping).unwrap();
    let offer = Offer {
        sizes: LAYOUT.sizes(),
        control: control_fd,
    };
    let greeted = async {
        listener
            .accept()
            .await
            .greet(&offer, GREETING_DEADLINE)
            .await
            .unwrap()
    };
    let connected = async { connect(&address, Arc::new(All)).await.unwrap() };
    let (channel, link) = tokio::join!(greeted, connected);
    let (arena, memory) = Mapping::create("test", ARENA_BYTES as usize).unwrap();
    let down = RingSender::new(control.clone(), LAYOUT.down);
    let villain = Villain {
        channel,
        control,
        down,
        arena,
        memory,
    };
    (
        Client {
            link,
            kept: Vec::new(),
        },
        villain,
    )
}

impl Client {
    /// Performs a reader's step after a wake-up. The worker writes nothing meanwhile, so the step ends.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        while let Poll::Ready(received) = self.link.poll_recv(cx) {
            if let Downstream::Pack(pack) = received? {
                self.kept.push(pack);
            }
        }
        match self.link.poll_ready(cx) {
            Poll::Ready(ready) => ready,
            Poll::Pending => Ok(()),
        }
    }
}

impl Villain {
    fn set(&self, at: usize, value: u64) {
        self.control.words()[at].store(value, Release);
    }

    fn push(&mut self, words: &[u64]) {
        // The push may fail, because the villain may have corrupted its own ring.
        let _ = self.down.try_push(words);
    }

    fn announce(&self, arena: u64, bytes: u64, fd: &OwnedFd) {
        let announcement = Datagram::Arena(ArenaAnnouncement { arena, bytes });
        say(&self.channel, &announcement.to_bytes().unwrap(), &[fd.as_fd()]);
    }

    fn send(&mut self, pack: &PackFrame) {
        let mut words = Vec::new();
        frame::write_pack(pack, &mut words);
        self.push(&words);
    }
}

/// A valid pack: one element of 100 bytes at the start of the only arena.
fn sound() -> PackFrame {
    let lens = [100_u64].into_iter().collect();
    PackFrame {
        task: TASK,
        first: 0,
        arena: 0,
        offset: 0,
        region_bytes: 100,
        lease: 1 << 32,
        is_shared: false,
        lens,
    }
}

/// An action that no correct worker performs, after a valid announcement of its arena.
type Deed = fn(&mut Villain);

const DEEDS: [(Deed, &str); 19] = [
    (
        |villain| villain.send(&PackFrame { arena: 1, ..sound() }),
        "unknown arena 1",
    ),
    (
        |villain| {
            villain.send(&PackFrame {
                offset: ARENA_BYTES - 64,
                ..sound()
            })
        },
        "the worker announced 100 bytes at 1048512",
    ),
    (
        |villain| {
            villain.send(&PackFrame {
                offset: u64::MAX - 63,
                ..sound()
            })
        },
        "the worker announced 100 bytes",
    ),
    (
        |villain| villain.send(&PackFrame { offset: 8, ..sound() }),
        "in units of 64",
    ),
    (
        |villain| {
            villain.send(&PackFrame {
                region_bytes: u64::MAX,
                ..sound()
            })
        },
        "18446744073709551615 bytes at 0",
    ),
    (
        |villain| {
            villain.send(&sound());
            villain.send(&PackFrame {
                region_bytes: u64::MAX,
                ..sound()
            });
        },
        "18446744073709551615 bytes at 0",
    ),
    (
        |villain| {
            villain.send(&PackFrame {
                lens: [101].into_iter().collect(),
                ..sound()
            })
        },
        "the elements of the pack do not cover its 100 bytes",
    ),
    (
        |villain| {
            villain.send(&PackFrame {
                lens: [64, 64].into_iter().collect(),
                ..sound()
            })
        },
        "the elements of the pack do not cover its 100 bytes",
    ),
    (
        |villain| villain.send(&PackFrame { lease: 0, ..sound() }),
        "expected a lease number",
    ),
    (|villain| villain.push(&[3, 1, 100]), "unknown arena 1"),
    (|villain| villain.push(&[4, 1]), "unknown arena 1"),
    (
        |villain| villain.push(&[2, 3, 0, 0, 0, 100, 1, 9000, 0]),
        "found 9 words",
    ),
    (|villain| villain.push(&[77]), "a frame of unknown kind 0x4d"),
    (
        |villain| villain.announce(0, ARENA_BYTES, &villain.arena),
        "arena 0 was announced twice",
    ),
    (
        |villain| villain.announce(1, ARENA_BYTES, &unsealed(ARENA_BYTES)),
        "not sealed against shrinking",
    ),
    (
        |villain| villain.announce(1, 2 * ARENA_BYTES, &villain.arena),
        "expected 2097152 bytes of shared memory as announced by the peer, found 1048576",
    ),
    (
        |villain| villain.announce(1, 1 << 50, &villain.arena),
        "an announcement of 1125899906842624 bytes",
    ),
    (
        |villain| villain.announce(1, ARENA_BYTES, &nothing()),
        "not sealed",
    ),
    (
        |villain| villain.set(LAYOUT.down.tail, u64::MAX),
        "found 18446744073709551615",
    ),
];

#[test]
fn a_worker_is_told_what_it_did_wrong() {
    for (deed, said) in DEEDS {
        on_a_lane(async {
            let (mut client, mut villain) = linked().await;
            villain.announce(0, ARENA_BYTES, &villain.arena);
            villain.send(&sound());
            while client.kept.is_empty() {
                std::future::poll_fn(|cx| Poll::Ready(client.step(cx)))
                    .await
                    .unwrap();
                tokio::task::yield_now().await;
            }
            deed(&mut villain);
            let lost = until_lost(|cx| client.step(cx)).await;
            assert!(
                matches!(&lost, LinkLost::Misbehaved(reason) if reason.contains(said)),
                "{lost}, not {said}"
            );
            client.link.close(&lost);
            let close = goodbye(&villain.channel).await;
            assert!(
                close.code == CloseCode::Blamed && close.text.contains(said),
                "{close:?}"
            );
        });
    }
}

/// D9.3.
#[test]
fn a_worker_without_shared_memory_gets_no_link() {
    let sizes = LAYOUT.sizes();
    let mut others = sizes;
    others.leases = 1 << 30;
    for (sizes, fd, said) in [
        (
            others,
            Mapping::create("test", LAYOUT.bytes()).unwrap().0,
            "1073741824",
        ),
        (sizes, unsealed(sizes.control_bytes), "not sealed"),
        (
            sizes,
            Mapping::create("test", 4096).unwrap().0,
            "found 4096 bytes",
        ),
        (sizes, nothing(), "not sealed"),
    ] {
        on_a_lane(async {
            let mut listener = Listener::bind(&ListenerConfig::default()).unwrap();
            let address = listener.address().clone();
            let answers = async {
                let channel = listener.accept().await.channel;
                channel.recv().await.unwrap();
                let hello = Datagram::WorkerHello(WorkerHello {
                    version: SHM_VERSION,
                    sizes,
                });
                assert!(channel.try_send(&hello, &[fd.as_fd()]).unwrap());
                channel
            };
            let (refused, _channel) = tokio::join!(connect(&address, Arc::new(All)), answers);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}, not {said}");
        });
    }
}

/// An announced arena is available with its first pack, even if the client's runtime has not seen the socket
/// become ready.
#[test]
fn an_arena_arrives_before_its_first_pack() {
    on_a_lane(async {
        let budget = ArenaBudget::new(1 << 20, None);
        let arena = Arc::new(Arena::new(1 << 20, false, &budget).unwrap());
        let mut listener = Listener::bind(&ListenerConfig::default()).unwrap();
        let address = listener.address().clone();
        let accepted = async { accept(listener.accept().await).await.unwrap() };
        let connected = async { connect(&address, Arc::new(All)).await.unwrap() };
        let (mut worker, mut client) = tokio::join!(accepted, connected);
        // The client has received all messages, and its runtime knows that the socket is empty.
        let heard = std::future::poll_fn(|cx| Poll::Ready(client.poll_recv(cx).is_ready())).await;
        assert!(!heard);
        let memory = Memory {
            arena: arena.clone(),
            is_shared: false,
        };
        worker.attach(TASK, &memory).unwrap();
        // Nothing awaits from here on, so the runtime cannot notice the announcement.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(worker.poll_ready(&mut cx).is_ready());
        let elements = TaskPack {
            task: TASK,
            first: 0,
            pack: pack_in(&*arena, 1000, 7),
        };
        worker.try_send(Downstream::Pack(elements.into())).unwrap();
        let received = client.poll_recv(&mut cx);
        let Poll::Ready(Ok(Downstream::Pack(received))) = received else {
            panic!("{received:?}")
        };
        let Body::Plain(body) = received.pack else {
            panic!("compressed")
        };
        assert_eq!(body.region()[..], [7; 1000]);
    });
}

/// An action of a hostile worker in one step.
#[derive(Debug, Clone)]
enum Act {
    Mischief(Mischief),
    /// Announces an arena with this number and size, and with memory of this kind.
    Announce {
        arena: u64,
        bytes: u64,
        kind: u8,
    },
    /// Puts a frame of arbitrary words on the ring.
    Frame(Vec<u64>),
    /// Sends a pack, some of whose fields may be invalid.
    Pack {
        arena: u64,
        offset: u64,
        region_bytes: u64,
        lease: u64,
        lens: Vec<u64>,
    },
    /// Overwrites elements that the client holds.
    Overwrite {
        at: usize,
        value: u8,
    },
    /// Lets the client take a step.
    Wait,
    /// Lets the client drop an element that it holds.
    Drop,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes = || prop_oneof![4 => Just(ARENA_BYTES), 1 => Just(4096_u64), 1 => values()];
    let offset = prop_oneof![4 => (0..ARENA_BYTES / 64).prop_map(|place| place * 64), 1 => values()];
    let region = prop_oneof![4 => 1..200_u64, 1 => values()];
    let len = prop_oneof![8 => 1..200_u64, 1 => 0..=u64::from(u32::MAX)];
    let act = prop_oneof![
        2 => mischief().prop_map(Act::Mischief),
        2 => (0..3_u64, bytes(), 0..4_u8).prop_map(|(arena, bytes, kind)| Act::Announce { arena, bytes, kind }),
        1 => prop::collection::vec(values(), 1..12).prop_map(Act::Frame),
        6 => (0..3_u64, offset, region, values(), prop::collection::vec(len, 1..4)).prop_map(
            |(arena, offset, region_bytes, lease, lens)| Act::Pack { arena, offset, region_bytes, lease, lens }
        ),
        1 => (0..4096_usize, any::<u8>()).prop_map(|(at, value)| Act::Overwrite { at, value }),
        4 => Just(Act::Wait),
        1 => Just(Act::Drop),
    ];
    prop::collection::vec(act, 1..60)
}

impl Villain {
    fn act(&mut self, act: Act, client: &mut Client) {
        match act {
            Act::Mischief(mischief) => mischief.commit(&self.channel, &self.control),
            Act::Announce { arena, bytes, kind } => match kind {
                0 => self.announce(arena, bytes, &nothing()),
                1 => self.announce(arena, bytes, &unsealed(bytes % (1 << 30))),
                _ => self.announce(arena, bytes, &self.arena),
            },
            Act::Frame(words) => self.push(&words),
            Act::Pack {
                arena,
                offset,
                region_bytes,
                lease,
                lens,
            } => {
                let lens = lens.into_iter().collect();
                self.send(&PackFrame {
                    arena,
                    offset,
                    region_bytes,
                    lease,
                    lens,
                    ..sound()
                });
            }
            Act::Overwrite { at, value } => {
                let words = self.memory.words(0..4096 * 8).unwrap();
                words[at].store(u64::from_le_bytes([value; 8]), Relaxed);
            }
            Act::Wait => {}
            Act::Drop => drop(client.kept.pop()),
        }
    }
}

async fn survives(acts: Vec<Act>) {
    let (mut client, mut villain) = linked().await;
    villain.announce(0, ARENA_BYTES, &villain.arena);
    villain.send(&sound());
    let mut lost = None;
    for act in acts {
        let waits = matches!(act, Act::Wait);
        villain.act(act, &mut client);
        if waits && lost.is_none() {
            tokio::task::yield_now().await;
            lost = std::future::poll_fn(|cx| Poll::Ready(client.step(cx)))
                .await
                .err();
        }
    }
    drop(villain);
    let lost = match lost {
        Some(lost) => lost,
        None => until_lost(|cx| client.step(cx)).await,
    };
    assert!(!matches!(lost, LinkLost::Resource(_)), "{lost}");
    client.link.close(&lost);
    let Client { link, kept } = client;
    drop(link);
    // The client can still read the packs that it holds.
    let mut sum = 0_u64;
    for pack in &kept {
        let Body::Plain(body) = &pack.pack else {
            panic!("compressed")
        };
        sum += body.region().iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    std::hint::black_box(sum);
}

#[test]
#[ignore = "only for a second process"]
fn random_workers() {
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
fn a_wild_worker_is_survived_without_leftovers() {
    second_process("hostile_worker::random_workers", "", nothing());
}
