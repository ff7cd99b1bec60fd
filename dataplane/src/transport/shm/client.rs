//! The reader's end of a same-host link, which reads elements without a copy where the worker wrote them.
//!
//! The client's end owns views of the arenas that the worker announced. The client's end returns a lease
//! after the last view of the lease's pack is dropped. The admission decides whether an announced pack was
//! granted; the client's end counts no credits. A pack is copied only if the reader keeps more than its share
//! (D10.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use millstream_element::{Pack, Slot};

use super::address::ShmAddress;
use super::channel::Channel;
use super::control::Control;
use super::datagram::ArenaAnnouncement;
use super::doorbell::Doorbell;
use super::frame::{self, Frame, PackFrame};
use super::greeting::{self, ConnectError, GREETING_DEADLINE};
use super::layout::{ControlLayout, FRAME_WORDS_MAX, LEASES_MAX};
use super::leases::LeaseNumber;
use super::line::{Heard, Line};
use super::map::Mapping;
use super::returns::ReturnSender;
use super::ring::{RingReceiver, RingSender};
use super::view::ArenaView;
use crate::proto::message::{ToClient, ToWorker};
use crate::proto::send::TaskPack;
use crate::transport::{Admission, Body, ClientLink, Downstream, Doze, LinkLost, LinkReport, Transport};

/// Maximum number of leases that a reader keeps before it copies packs. The limit is half of all leases, so
/// that the worker never runs out.
const LEASES_KEPT_MAX: usize = LEASES_MAX / 2;

/// Maximum number of arenas of a link, equal to the number of subscriptions that a worker accepts.
const ARENAS_MAX: usize = 1024;

/// Maximum number of datagrams read in search of a pack's arena. The limit is many times the capacity of a
/// socket, so that a worker cannot hold up the reader by endless rings.
const LOOKED_AT_MAX: usize = 16 << 10;

/// Connects to a worker of this host. The caller must be within a tokio runtime with I/O and time.
/// Cancel-safe.
///
/// # Errors
/// Returns a [`ConnectError`] with the reason. The worker can still be read over a network.
pub async fn connect(
    address: &ShmAddress,
    admission: Arc<dyn Admission>,
) -> Result<Box<ClientLink>, ConnectError> {
    let (channel, offer) = greeting::connect(address, GREETING_DEADLINE).await?;
    let misbehaved = |reason: String| ConnectError::Lost(LinkLost::Misbehaved(reason));
    if offer.sizes != ControlLayout::STANDARD.sizes() {
        return Err(misbehaved(format!(
            "found memory of the sizes {:?}, expected {:?}",
            offer.sizes,
            ControlLayout::STANDARD.sizes()
        )));
    }
    let mapping = Mapping::open(&offer.control, offer.sizes.control_bytes)
        .map_err(|error| ConnectError::Lost(error.into()))?;
    let control = Control::new(mapping)
        .ok_or_else(|| misbehaved("the control memory is smaller than its layout".into()))?;
    let layout = ControlLayout::STANDARD;
    let line = Line::new(channel);
    let borrowed = Arc::new(Borrowed {
        returns: ReturnSender::new(control.clone(), layout.returns),
        leases: AtomicUsize::new(0),
        has_copied: AtomicBool::new(false),
        _channel: line.channel().clone(),
    });
    Ok(Box::new(ClientEnd {
        line,
        down: RingReceiver::new(control.clone(), layout.down),
        doorbell: Doorbell::new(control.clone(), layout.down.receiver_dozes),
        up: RingSender::new(control, layout.up),
        admission,
        arenas: BTreeMap::new(),
        borrowed,
        words: Vec::new(),
        packs: 0,
        bytes_copied: 0,
    }))
}

#[derive(Debug)]
struct ClientEnd {
    line: Line,
    down: RingReceiver<Control>,
    /// The word at which a thread sleeps until the worker sends a frame.
    doorbell: Doorbell,
    up: RingSender<Control>,
    admission: Arc<dyn Admission>,
    arenas: BTreeMap<u64, Known>,
    borrowed: Arc<Borrowed>,
    words: Vec<u64>,
    packs: u64,
    bytes_copied: u64,
}

/// The state that all views of a link share. The socket stays open as long as a view lives; its end tells the
/// worker that no view is left.
#[derive(Debug)]
struct Borrowed {
    returns: ReturnSender<Control>,
    leases: AtomicUsize,
    has_copied: AtomicBool,
    _channel: Arc<Channel>,
}

/// An arena that the worker announced.
#[derive(Debug)]
struct Known {
    view: ArenaView,
    /// The number of bytes of the arena that the reader may keep before it copies.
    hold_bytes: u64,
    kept_bytes: Arc<AtomicU64>,
}

/// The memory of one pack, which returns to the worker with its last view.
struct Lease {
    borrowed: Arc<Borrowed>,
    number: LeaseNumber,
    bytes: u64,
    kept_bytes: Arc<AtomicU64>,
}

impl Lease {
    fn give_back(&self) {
        self.kept_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.borrowed.leases.fetch_sub(1, Ordering::Relaxed);
        self.borrowed.returns.send(self.number);
    }
}

impl ClientEnd {
    fn take_in(&mut self, frame: &PackFrame) -> Result<TaskPack<Body>, LinkLost> {
        let elements = frame.lens.len() as u64;
        self.admission
            .admit(frame.task, frame.first, elements, frame.region_bytes)?;
        let known = self.find_arena(frame.arena)?;
        let Some(number) = LeaseNumber::from_word(frame.lease) else {
            return Err(LinkLost::Misbehaved(
                "expected a lease number in the announcement of a pack, found 0".into(),
            ));
        };
        let (kept_bytes, view, hold_bytes) = (known.kept_bytes.clone(), known.view.clone(), known.hold_bytes);
        let lease = Lease {
            borrowed: self.borrowed.clone(),
            number,
            bytes: frame.region_bytes,
            kept_bytes: kept_bytes.clone(),
        };
        let slot = view
            .slot(frame.offset, frame.region_bytes, frame.is_shared, move || {
                lease.give_back()
            })
            .map_err(|error| LinkLost::Misbehaved(error.to_string()))?;
        // The bytes are counted only after the range was checked, because the worker can announce any number.
        let kept_bytes = kept_bytes.fetch_add(frame.region_bytes, Ordering::Relaxed) + frame.region_bytes;
        let leases = self.borrowed.leases.fetch_add(1, Ordering::Relaxed) + 1;
        let hoards = kept_bytes > hold_bytes || leases > LEASES_KEPT_MAX;
        let slot = if hoards { self.copy_out(slot) } else { slot };
        let pack = Pack::from_parts(slot, &frame.lens);
        self.packs += 1;
        Ok(TaskPack {
            task: frame.task,
            first: frame.first,
            pack: Body::Plain(pack.map_err(|error| LinkLost::Misbehaved(error.to_string()))?),
        })
    }

    /// Copies a slot into this process's own memory and returns the original to the worker. Keeps the
    /// original if no memory is available.
    fn copy_out(&mut self, slot: Slot) -> Slot {
        let Ok(mut copy) = self.admission.slot_alloc().alloc(slot.len()) else {
            return slot;
        };
        copy.copy_from_slice(&slot);
        self.bytes_copied += slot.len() as u64;
        if !self.borrowed.has_copied.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "this reader keeps more elements than its share of the worker's shared memory: further elements are copied"
            );
        }
        copy.freeze()
    }

    fn note_arena(
        &mut self,
        announcement: ArenaAnnouncement,
        fd: &std::os::fd::OwnedFd,
    ) -> Result<(), LinkLost> {
        let misbehaved = |reason: String| LinkLost::Misbehaved(reason);
        if self.arenas.len() >= ARENAS_MAX {
            return Err(misbehaved(format!(
                "expected at most {ARENAS_MAX} arenas on a link, found more"
            )));
        }
        let mapping = Mapping::open(fd, announcement.bytes)?;
        let view = ArenaView::new(mapping);
        let known = Known {
            // The limit applies until the worker sends the reader's share.
            hold_bytes: view.size_bytes() / 4,
            view,
            kept_bytes: Arc::default(),
        };
        match self.arenas.insert(announcement.arena, known) {
            None => Ok(()),
            Some(_) => Err(misbehaved(format!(
                "arena {} was announced twice",
                announcement.arena
            ))),
        }
    }

    /// Reads the worker's messages on the socket. Returns whether the rings may have something new.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Result<bool, LinkLost> {
        match self.line.poll(cx) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(Heard::Ring)) => Ok(true),
            Poll::Ready(Ok(Heard::Arena(announcement, fd))) => {
                self.note_arena(announcement, &fd)?;
                Ok(true)
            }
            Poll::Ready(Err(lost)) => Err(lost),
        }
    }

    /// Returns an arena by its number. The worker announced the arena over the socket before it used the
    /// arena on the ring. The announcement is in the socket, even if the runtime has not noticed it yet.
    fn find_arena(&mut self, arena: u64) -> Result<&mut Known, LinkLost> {
        for _ in 0..LOOKED_AT_MAX {
            if self.arenas.contains_key(&arena) {
                break;
            }
            match self.line.look() {
                Poll::Pending => break,
                // A ring needs no action, because the caller reads the rings in any case.
                Poll::Ready(Ok(Heard::Ring)) => {}
                Poll::Ready(Ok(Heard::Arena(announcement, fd))) => self.note_arena(announcement, &fd)?,
                Poll::Ready(Err(lost)) => return Err(lost),
            }
        }
        let known = self.arenas.get_mut(&arena);
        known.ok_or_else(|| {
            LinkLost::Misbehaved(format!(
                "unknown arena {arena}: expected an arena that the worker announced"
            ))
        })
    }
}

impl ClientEnd {
    /// Returns the message or pack in the current frame, or `None` for a notice about an arena.
    fn receive(&mut self) -> Result<Option<Downstream>, LinkLost> {
        Ok(Some(match frame::read::<ToClient>(&self.words)? {
            Frame::Message(message) => Downstream::Message(message),
            Frame::Pack(pack) => Downstream::Pack(self.take_in(&pack)?),
            Frame::Share { arena, hold_bytes } => {
                self.find_arena(arena)?.hold_bytes = hold_bytes;
                return Ok(None);
            }
            Frame::Forget { arena } => {
                self.find_arena(arena)?;
                self.arenas.remove(&arena);
                return Ok(None);
            }
        }))
    }
}

impl Transport for ClientEnd {
    type Out = ToWorker;
    type In = Downstream;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        if self.poll_line(cx)? {
            // The ring may mean that a frame can be received.
            cx.waker().wake_by_ref();
        }
        while !self.up.has_room(FRAME_WORDS_MAX)? {
            if self.up.prepare_wait(FRAME_WORDS_MAX)? {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn try_send(&mut self, message: ToWorker) -> Result<(), LinkLost> {
        let written = frame::write_message(&message, &mut self.words);
        written.map_err(|error| LinkLost::Resource(format!("cannot send a message: {error}")))?;
        if !self.up.try_push(&self.words)? {
            return Err(LinkLost::Resource(
                "the ring has no room for a message: the caller did not wait for `poll_ready`".into(),
            ));
        }
        if self.up.needs_wake() {
            self.line.ring();
        }
        Ok(())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        loop {
            if let Some(received) = self.try_recv()? {
                return Poll::Ready(Ok(received));
            }
            if self.poll_line(cx)? {
                continue;
            }
            if self.down.prepare_wait()? {
                return Poll::Pending;
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Self::In>, LinkLost> {
        while self.down.pop(&mut self.words)? {
            if self.down.needs_wake() {
                self.line.ring();
            }
            if let Some(received) = self.receive()? {
                return Ok(Some(received));
            }
        }
        Ok(None)
    }

    fn doze(&mut self) -> Result<Doze, LinkLost> {
        Ok(if self.down.prepare_doze()? {
            Doze::At(self.doorbell.clone())
        } else {
            Doze::Awake
        })
    }

    fn close(&mut self, why: &LinkLost) {
        self.line.close(why);
    }

    fn is_network(&self) -> bool {
        false
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            transport: "shm",
            packs: self.packs,
            bytes_copied: self.bytes_copied,
            ..LinkReport::default()
        }
    }
}
