//! The worker's end of a same-host link, which lends packs of shared memory and takes them back.
//!
//! The worker's end owns the frames that wait for room, and the arenas that it announced to the reader.
//! Sessions and credits are unknown to the module. Only packs that were not produced in the reader's arena
//! are copied.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millstream_element::{AllocError, HeapAlloc, Pack, SlotAlloc, SlotMut};
use tokio::time::{Instant, Sleep};

use super::arena::Arena;
use super::control::Control;
use super::datagram::{ArenaAnnouncement, Datagram};
use super::doorbell::Doorbell;
use super::frame::{self, Frame, Lens, PACK_ELEMENTS_MAX, PackFrame};
use super::greeting::{GREETING_DEADLINE, GreetError, Offer};
use super::layout::{ControlLayout, FRAME_WORDS_MAX};
use super::lent::Lent;
use super::line::{Heard, Line};
use super::listen::Incoming;
use super::map::Mapping;
use super::ring::{RingReceiver, RingSender};
use super::share::Share;
use crate::proto::message::{TaskId, ToWorker};
use crate::proto::send::TaskPack;
use crate::transport::{Downstream, LinkLost, LinkReport, TaskMemory, Transport, WorkerLink};

/// The time between two attempts to lend a pack that found no memory or lease. Readers return memory and
/// leases without a message.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// The longest time for which a pack waits for memory. After the maximum time the link is given up, and the
/// reader continues over the network. A reader that copies the packs that it keeps returns its leases at
/// once.
pub(super) const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// Maximum number of frames that wait for room on the ring. The maximum covers a notice for each arena of a
/// link and the messages of one step of a session. Elements wait elsewhere.
const OUT_MAX: usize = 2048;

/// Greets a client that connected. Returns the link that serves the client.
///
/// # Errors
/// Returns a [`GreetError`] with the side at fault.
pub async fn accept(incoming: Incoming) -> Result<Box<WorkerLink>, GreetError> {
    let layout = ControlLayout::STANDARD;
    let unavailable =
        |error: io::Error| LinkLost::Resource(format!("cannot create shared memory for a link: {error}"));
    let (fd, mapping) = Mapping::create("millstream-link", layout.bytes()).map_err(unavailable)?;
    let control = Control::new(mapping)
        .ok_or_else(|| LinkLost::Resource("the control memory is smaller than its layout".into()))?;
    let offer = Offer {
        sizes: ControlLayout::STANDARD.sizes(),
        control: fd,
    };
    let channel = incoming.greet(&offer, GREETING_DEADLINE).await?;
    Ok(Box::new(WorkerEnd {
        line: Line::new(channel),
        down: RingSender::new(control.clone(), layout.down),
        reader: Doorbell::new(control.clone(), layout.down.receiver_dozes),
        up: RingReceiver::new(control.clone(), layout.up),
        lent: Lent::new(&control),
        arenas: BTreeMap::new(),
        announced: 0,
        out: VecDeque::new(),
        waiting: VecDeque::new(),
        waiting_since: None,
        try_again: Box::pin(tokio::time::sleep(Duration::ZERO)),
        last_copied: None,
        spare: None,
        words: Vec::new(),
        packs: 0,
        bytes_copied: 0,
    }))
}

#[derive(Debug)]
struct WorkerEnd {
    line: Line,
    down: RingSender<Control>,
    /// The word at which a thread of the reader sleeps until the worker sends a frame.
    reader: Doorbell,
    up: RingReceiver<Control>,
    lent: Lent,
    /// The arenas announced on this link and still in use, by task.
    arenas: BTreeMap<TaskId, Announced>,
    /// The number of arenas announced on this link.
    announced: u64,
    /// The frames that found no room on the ring. Later frames wait after them.
    out: VecDeque<Vec<u64>>,
    /// The packs that found no memory or lease. The packs are sent after the frames in `out`.
    waiting: VecDeque<TaskPack>,
    waiting_since: Option<Instant>,
    try_again: Pin<Box<Sleep>>,
    /// The task and the bytes of the pack that was copied last. The next pack of the task may need a copy
    /// too.
    last_copied: Option<(TaskId, usize)>,
    /// The memory reserved for the next copy.
    spare: Option<SlotMut>,
    /// The buffer in which the next frame is encoded.
    words: Vec<u64>,
    packs: u64,
    bytes_copied: u64,
}

/// The resource that the next frame waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    /// Room on the ring. The reader rings when room becomes free.
    Room,
    /// Memory or a lease. The reader returns memory and leases without a message.
    Memory,
}

/// An arena that was announced to the reader.
#[derive(Debug)]
struct Announced {
    number: u64,
    share: Share,
    /// True if every pack in the arena goes to other readers too.
    is_shared: bool,
    /// The reader's share in bytes, as announced last.
    told_bytes: u64,
}

impl WorkerEnd {
    /// Sends the waiting frames and packs as far as room and memory allow. Returns the resource that the
    /// first remaining frame lacks.
    fn flush(&mut self) -> Result<Lack, LinkLost> {
        loop {
            while let Some(words) = self.out.front() {
                if self.down.try_push(words)? {
                    self.out.pop_front();
                    self.wake_reader();
                } else if self.down.prepare_wait(words.len())? {
                    return Ok(Lack::Room);
                }
            }
            let Some(pack) = self.waiting.pop_front() else {
                return Ok(Lack::Nothing);
            };
            if let Some(pack) = self.lend(pack)? {
                self.waiting.push_front(pack);
                return Ok(Lack::Memory);
            }
        }
    }

    /// Returns the resource that the next frame lacks: room, a lease, or memory if the last pack of the task
    /// had to be copied.
    fn lack(&mut self) -> Result<Lack, LinkLost> {
        while !self.down.has_room(FRAME_WORDS_MAX)? {
            if self.down.prepare_wait(FRAME_WORDS_MAX)? {
                return Ok(Lack::Room);
            }
        }
        if self.lent.is_full() {
            return Ok(Lack::Memory);
        }
        if let (Some((task, bytes)), None) = (self.last_copied, &self.spare)
            && let Some(announced) = self.arenas.get(&task)
        {
            self.spare = announced.share.arena().alloc(bytes).ok();
            if self.spare.is_none() {
                return Ok(Lack::Memory);
            }
        }
        Ok(Lack::Nothing)
    }

    fn wake_reader(&self) {
        let sleepers = self.down.sleepers();
        if sleepers.thread {
            self.reader.ring();
        }
        if sleepers.task {
            self.line.ring();
        }
    }

    /// Schedules the next check for memory that the reader returns, which it does without a message. Returns
    /// an error if packs have lacked memory for too long.
    fn wait_for_memory(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() > MEMORY_WAIT && !self.waiting.is_empty() {
            return Err(LinkLost::Resource(format!(
                "the reader holds {} packs and returns none, so that there is no shared memory for the next pack",
                self.lent.out()
            )));
        }
        self.try_again.as_mut().reset(Instant::now() + TRY_AGAIN);
        if self.try_again.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Puts the encoded frame on the ring, or after the frames that wait for room.
    fn push(&mut self) -> Result<(), LinkLost> {
        if !self.out.is_empty() || !self.down.try_push(&self.words)? {
            if self.out.len() >= OUT_MAX {
                let reason =
                    format!("expected at most {OUT_MAX} waiting messages, but the reader takes none");
                return Err(LinkLost::Resource(reason));
            }
            self.out.push_back(std::mem::take(&mut self.words));
        } else {
            self.wake_reader();
        }
        Ok(())
    }

    /// Lends and announces a pack. Returns the pack if no memory or lease is available now.
    fn lend(&mut self, pack: TaskPack) -> Result<Option<TaskPack>, LinkLost> {
        let TaskPack { task, first, pack } = pack;
        let again = |pack| Ok(Some(TaskPack { task, first, pack }));
        let Some(announced) = self.arenas.get(&task) else {
            let reason = format!("task {task} has no shared memory on this host");
            return Err(LinkLost::Resource(reason));
        };
        let (number, is_shared, arena) = (
            announced.number,
            announced.is_shared,
            announced.share.arena().clone(),
        );
        let pack = match arena.offset_of(pack.region()) {
            Some(_) => pack,
            None => match self.copy(task, &pack, &arena)? {
                Some(copied) => copied,
                None => return again(pack),
            },
        };
        let offset = arena.offset_of(pack.region()).unwrap_or_default();
        let (region_bytes, lens) = (pack.region().len() as u64, pack.lens().collect::<Lens>());
        let lease = match self.lent.lend(pack) {
            Ok(lease) => lease.word(),
            Err(pack) => return again(pack),
        };
        let frame = PackFrame {
            task,
            first,
            arena: number,
            offset,
            region_bytes,
            lease,
            is_shared,
            lens,
        };
        frame::write_pack(&frame, &mut self.words);
        self.push()?;
        self.packs += 1;
        Ok(None)
    }

    /// Copies a pack into the task's arena. Returns `None` if no memory is available now.
    fn copy(&mut self, task: TaskId, pack: &Pack, arena: &Arena) -> Result<Option<Pack>, LinkLost> {
        let bytes = pack.region().len();
        let of_task = self.last_copied.is_some_and(|(last, _)| last == task);
        self.last_copied = Some((task, bytes));
        let spare = self.spare.take().filter(|spare| of_task && spare.len() >= bytes);
        let mut slot = match spare.map_or_else(|| arena.alloc(bytes), Ok) {
            Ok(slot) => slot,
            Err(AllocError::Exhausted { .. }) => return Ok(None),
            Err(error @ (AllocError::TooLarge { .. } | AllocError::OutOfMemory { .. })) => {
                let reason = format!(
                    "no shared memory for elements of task {task}: {error}; raise --shm-bytes-per-task"
                );
                return Err(LinkLost::Resource(reason));
            }
        };
        slot.truncate(bytes);
        slot.copy_from_slice(pack.region());
        self.bytes_copied += bytes as u64;
        let lens: Vec<u64> = pack.lens().collect();
        let copied = Pack::from_parts(slot.freeze(), &lens);
        copied
            .map(Some)
            .map_err(|error| LinkLost::Resource(format!("invalid copy of a pack: {error}")))
    }

    /// Sends the reader its share of each arena, if the share changed with the number of readers.
    fn tell_shares(&mut self) -> Result<(), LinkLost> {
        let mut changed: smallvec::SmallVec<[(u64, u64); 4]> = smallvec::SmallVec::new();
        for announced in self.arenas.values_mut() {
            let bytes = announced.share.bytes();
            if announced.told_bytes != bytes {
                announced.told_bytes = bytes;
                changed.push((announced.number, bytes));
            }
        }
        for (number, bytes) in changed {
            frame::write_share(number, bytes, &mut self.words);
            self.push()?;
        }
        Ok(())
    }
}

impl Transport for WorkerEnd {
    type Out = Downstream;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        if let Poll::Ready(heard) = self.line.poll(cx) {
            only_rings(heard?)?;
            // The ring may mean that a message can be received.
            cx.waker().wake_by_ref();
        }
        self.lent.collect()?;
        if self.out.is_empty() {
            self.tell_shares()?;
        }
        let lack = match self.flush()? {
            Lack::Nothing => self.lack()?,
            lack @ (Lack::Room | Lack::Memory) => lack,
        };
        if lack == Lack::Memory {
            self.wait_for_memory(cx)?;
            return Poll::Pending;
        }
        self.waiting_since = None;
        match lack {
            Lack::Nothing => Poll::Ready(Ok(())),
            Lack::Room | Lack::Memory => Poll::Pending,
        }
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        match frame {
            Downstream::Message(message) => {
                let written = frame::write_message(&message, &mut self.words);
                written.map_err(|error| LinkLost::Resource(format!("cannot send a message: {error}")))?;
                self.push()
            }
            Downstream::Pack(TaskPack {
                task,
                mut first,
                pack,
            }) => {
                // Sessions compress nothing for this transport (D2.6), but a link accepts every form.
                let opened = pack.open(&HeapAlloc);
                let mut pack = opened.map_err(|error| LinkLost::Resource(error.to_string()))?;
                while !pack.is_empty() {
                    let count = pack.len().min(PACK_ELEMENTS_MAX);
                    let part = TaskPack {
                        task,
                        first,
                        pack: pack.split_to(count),
                    };
                    first += count as u64;
                    let left = if self.waiting.is_empty() {
                        self.lend(part)?
                    } else {
                        Some(part)
                    };
                    self.waiting.extend(left);
                }
                Ok(())
            }
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<ToWorker, LinkLost>> {
        loop {
            if let Some(message) = self.try_recv()? {
                return Poll::Ready(Ok(message));
            }
            if let Poll::Ready(heard) = self.line.poll(cx) {
                only_rings(heard?)?;
                continue;
            }
            if self.up.prepare_wait()? {
                return Poll::Pending;
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<ToWorker>, LinkLost> {
        if !self.up.pop(&mut self.words)? {
            return Ok(None);
        }
        if self.up.needs_wake() {
            self.line.ring();
        }
        match frame::read::<ToWorker>(&self.words)? {
            Frame::Message(message) => Ok(Some(message)),
            Frame::Pack(_) | Frame::Share { .. } | Frame::Forget { .. } => Err(LinkLost::Misbehaved(
                "expected a message from the reader, found a notice about memory".into(),
            )),
        }
    }

    fn close(&mut self, why: &LinkLost) {
        self.line.close(why);
    }

    fn attach(&mut self, task: TaskId, memory: &dyn TaskMemory) -> Result<(), LinkLost> {
        if self.arenas.contains_key(&task) {
            return Ok(());
        }
        let Some(arena) = memory.arena() else {
            return Err(LinkLost::Resource(format!(
                "no shared memory exists for task {task}"
            )));
        };
        let announcement = ArenaAnnouncement {
            arena: self.announced,
            bytes: arena.size_bytes() as u64,
        };
        let said = self
            .line
            .channel()
            .try_send(&Datagram::Arena(announcement), &[arena.fd()])?;
        if !said {
            return Err(LinkLost::Resource(
                "the reader's socket has no room for the announcement of an arena".into(),
            ));
        }
        self.announced += 1;
        let announced = Announced {
            number: announcement.arena,
            share: Share::new(arena),
            is_shared: memory.is_shared(),
            told_bytes: 0,
        };
        self.arenas.insert(task, announced);
        Ok(())
    }

    fn detach(&mut self, task: TaskId) -> Result<(), LinkLost> {
        if let Some(announced) = self.arenas.remove(&task) {
            frame::write_forget(announced.number, &mut self.words);
            self.push()?;
        }
        Ok(())
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

/// Checks that a message of the reader on the socket is a ring. A reader sends nothing else there.
fn only_rings(heard: Heard) -> Result<(), LinkLost> {
    match heard {
        Heard::Ring => Ok(()),
        Heard::Arena(..) => Err(LinkLost::Misbehaved(
            "expected a ring from the reader, found the announcement of an arena".into(),
        )),
    }
}

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        self.line.close(&LinkLost::Closed(
            "the worker's end of the link was dropped".into(),
        ));
        self.lent.clone().keep(self.line.channel().clone());
    }
}
