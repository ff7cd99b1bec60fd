//! A client's end of a link that records messages. Tests can wait for messages and corrupt packs.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use millstream_dataplane::proto::message::{ToClient, ToWorker};
use millstream_dataplane::transport::{Body, ClientLink, Downstream, LinkLost, LinkReport, Transport};
use millstream_element::{HeapAlloc, Pack, SlotAlloc};
use parking_lot::{Condvar, Mutex};

/// Counts of the messages that crossed the links of one worker. A received message counts once the reader has
/// handled it.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) subscribes: u64,
    pub(crate) grants: u64,
    /// The number of arrived elements in the latest grant.
    pub(crate) acknowledged: u64,
    /// The number of elements that wait for the consumer, in the latest grant.
    pub(crate) waiting: Option<u64>,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) packs: u64,
    /// The number of groups of a coordinated read that every consumer has, in the worker's latest message.
    pub(crate) released: u64,
    /// The number of the pack to corrupt, counted from 0, and the kind of corruption.
    pub(crate) spoil: Option<(u64, Spoil)>,
    /// The round-trip time that the link reports.
    pub(crate) round_trip: Option<Duration>,
}

/// The kind of corruption of a pack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spoil {
    /// A compressed block that cannot be decompressed.
    Block,
    /// Elements without headers.
    Elements,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

impl Log {
    /// Waits until the counts reach a condition. The watchdog limits the wait.
    pub(crate) fn wait(&self, is_reached: impl Fn(&Traffic) -> bool) {
        let mut traffic = self.traffic.lock();
        while !is_reached(&traffic) {
            self.changed.wait(&mut traffic);
        }
    }

    pub(crate) fn grants(&self) -> u64 {
        self.traffic.lock().grants
    }

    pub(crate) fn say_round_trip(&self, takes: Duration) {
        self.traffic.lock().round_trip = Some(takes);
    }

    pub(crate) fn spoil(&self, pack: u64, how: Spoil) {
        self.traffic.lock().spoil = Some((pack, how));
    }

    fn note(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut self.traffic.lock());
        self.changed.notify_all();
    }
}

type Heard = Box<dyn FnOnce(&mut Traffic) + Send>;

pub(crate) struct Tap {
    link: Box<ClientLink>,
    log: Arc<Log>,
    /// The effect of the message that the reader is handling. The effect is applied when the reader polls the
    /// link again.
    heard: Option<Heard>,
    packs: u64,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Tap {
    pub(crate) fn new(link: Box<ClientLink>, log: Arc<Log>) -> Self {
        Self {
            link,
            log,
            heard: None,
            packs: 0,
        }
    }

    fn hear(&mut self, frame: &mut Downstream) {
        self.heard = match frame {
            Downstream::Message(ToClient::Accepted(_)) => Some(Box::new(|traffic| traffic.accepted += 1)),
            Downstream::Message(ToClient::Refused(_)) => Some(Box::new(|traffic| traffic.refused += 1)),
            Downstream::Message(ToClient::Released(released)) => {
                let groups = released.groups;
                Some(Box::new(move |traffic| traffic.released = groups))
            }
            Downstream::Message(_) => None,
            Downstream::Pack(pack) => {
                let spoil = self.log.traffic.lock().spoil;
                if let Some((_, how)) = spoil.filter(|(number, _)| *number == self.packs) {
                    pack.pack = spoiled(&pack.pack, how);
                }
                self.packs += 1;
                Some(Box::new(|traffic| traffic.packs += 1))
            }
        };
    }
}

impl Transport for Tap {
    type Out = ToWorker;
    type In = Downstream;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.link.poll_ready(cx)
    }

    fn try_send(&mut self, frame: ToWorker) -> Result<(), LinkLost> {
        self.log.note(|traffic| match &frame {
            ToWorker::Subscribe(_) => traffic.subscribes += 1,
            ToWorker::Grant(grant) => {
                traffic.grants += 1;
                (traffic.acknowledged, traffic.waiting) = (grant.received, grant.waiting);
            }
            ToWorker::Hello(_) | ToWorker::Cancel(_) => {}
        });
        self.link.try_send(frame)
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        if let Some(heard) = self.heard.take() {
            self.log.note(heard);
        }
        let mut frame = std::task::ready!(self.link.poll_recv(cx));
        if let Ok(frame) = &mut frame {
            self.hear(frame);
        }
        Poll::Ready(frame)
    }

    fn close(&mut self, why: &LinkLost) {
        self.link.close(why);
    }

    fn is_network(&self) -> bool {
        self.link.is_network()
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            round_trip: self.log.traffic.lock().round_trip,
            ..self.link.report()
        }
    }

    fn bytes_copied(&self) -> u64 {
        self.link.bytes_copied()
    }
}

fn spoiled(body: &Body, how: Spoil) -> Body {
    let Body::Plain(pack) = body else {
        panic!("links within a process do not compress")
    };
    let lens: Vec<u64> = pack.lens().collect();
    let mut region = HeapAlloc.alloc(pack.region().len()).expect("memory");
    region.fill(0);
    match how {
        Spoil::Block => Body::Lz4 {
            block: region.freeze(),
            region_bytes: pack.region().len(),
            lens,
        },
        Spoil::Elements => {
            Body::Plain(Pack::from_parts(region.freeze(), &lens).expect("the lengths match the region"))
        }
    }
}
