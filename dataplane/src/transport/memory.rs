//! The link within a process: frames move through bounded channels, and slots move by reference. No payload
//! is copied.
//!
//! Tests use this link too: [`Knobs`] can break the link after a number of frames. [`Knobs`] can also make
//! packs overtake each other, like streams of a network.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio_util::sync::PollSender;

use super::{Admission, Body, ClientLink, Downstream, LinkLost, LinkReport, Transport, WorkerLink};
use crate::proto::message::ToWorker;
use crate::proto::send::TaskPack;

/// Maximum number of frames that wait in each direction. A pack holds many elements, so a few frames keep
/// both sides busy.
const FRAMES_MAX: usize = 64;

/// The faults that tests inject into a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Knobs {
    /// The number of frames from the worker after which the link breaks.
    pub cut_after_frames: Option<u64>,
    /// The size of the groups in which packs are delivered, the last pack of a group first.
    pub reversed_in_groups_of: usize,
}

/// The reason given by the end that closed the link first, as the other end receives it.
type LastWord = Arc<OnceLock<LinkLost>>;

/// Makes a link. Returns the worker's end and the client's end.
pub fn pair(admission: Arc<dyn Admission>, knobs: Knobs) -> (Box<WorkerLink>, Box<ClientLink>) {
    let (down_sender, down) = mpsc::channel(FRAMES_MAX);
    let (up_sender, up) = mpsc::channel(FRAMES_MAX);
    let last_word = LastWord::default();
    let worker = WorkerEnd {
        down: PollSender::new(down_sender),
        up,
        packs: 0,
        last_word: last_word.clone(),
    };
    let client = ClientEnd {
        up: PollSender::new(up_sender),
        down,
        admission,
        knobs,
        frames: 0,
        held: Vec::new(),
        ready: VecDeque::new(),
        packs: 0,
        last_word,
    };
    (Box::new(worker), Box::new(client))
}

#[derive(Debug)]
struct WorkerEnd {
    down: PollSender<Downstream>,
    up: mpsc::Receiver<ToWorker>,
    packs: u64,
    last_word: LastWord,
}

impl Transport for WorkerEnd {
    type Out = Downstream;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.down.poll_reserve(cx).map_err(|_| gone(&self.last_word))
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        self.packs += u64::from(matches!(frame, Downstream::Pack(_)));
        self.down.send_item(frame).map_err(|_| gone(&self.last_word))
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        let frame = std::task::ready!(self.up.poll_recv(cx));
        Poll::Ready(frame.ok_or_else(|| gone(&self.last_word)))
    }

    fn try_recv(&mut self) -> Result<Option<Self::In>, LinkLost> {
        match self.up.try_recv() {
            Ok(frame) => Ok(Some(frame)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone(&self.last_word)),
        }
    }

    fn close(&mut self, why: &LinkLost) {
        // The reason is set before the channels close, so that a task that finds a channel closed finds the
        // reason too.
        self.last_word.get_or_init(|| why.as_heard());
        self.down.close();
        self.up.close();
    }

    fn is_network(&self) -> bool {
        false
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            transport: "memory",
            packs: self.packs,
            ..LinkReport::default()
        }
    }

    fn bytes_copied(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct ClientEnd {
    up: PollSender<ToWorker>,
    down: mpsc::Receiver<Downstream>,
    admission: Arc<dyn Admission>,
    knobs: Knobs,
    frames: u64,
    held: Vec<TaskPack<Body>>,
    ready: VecDeque<TaskPack<Body>>,
    packs: u64,
    last_word: LastWord,
}

impl ClientEnd {
    fn release(&mut self) {
        self.ready.extend(self.held.drain(..).rev());
    }

    /// Handles a frame. Returns a message at once; a pack becomes ready or is held back for reordering.
    fn handle(&mut self, frame: Downstream) -> Result<Option<Downstream>, LinkLost> {
        self.frames += 1;
        if self.knobs.cut_after_frames.is_some_and(|cut| self.frames > cut) {
            self.down.close();
            return Err(LinkLost::Broken("the test cut the link".into()));
        }
        match frame {
            Downstream::Message(message) => Ok(Some(Downstream::Message(message))),
            Downstream::Pack(out) => {
                let pack = self.take_in(out)?;
                self.held.push(pack);
                if self.held.len() >= self.knobs.reversed_in_groups_of.max(1) {
                    self.release();
                }
                Ok(None)
            }
        }
    }

    fn take_in(&mut self, pack: TaskPack<Body>) -> Result<TaskPack<Body>, LinkLost> {
        let (elements, region_bytes) = (pack.pack.len() as u64, pack.pack.region_bytes());
        self.admission
            .admit(pack.task, pack.first, elements, region_bytes)?;
        self.packs += 1;
        Ok(pack)
    }
}

impl Transport for ClientEnd {
    type Out = ToWorker;
    type In = Downstream;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.up.poll_reserve(cx).map_err(|_| gone(&self.last_word))
    }

    fn try_send(&mut self, frame: ToWorker) -> Result<(), LinkLost> {
        self.up.send_item(frame).map_err(|_| gone(&self.last_word))
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        loop {
            if let Some(pack) = self.ready.pop_front() {
                return Poll::Ready(Ok(Downstream::Pack(pack)));
            }
            let frame = match self.down.poll_recv(cx) {
                Poll::Ready(Some(frame)) => frame,
                Poll::Ready(None) => return Poll::Ready(Err(gone(&self.last_word))),
                // Packs that are held back for reordering are released before the link has nothing more to
                // deliver.
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    self.release();
                    continue;
                }
            };
            if let Some(frame) = self.handle(frame)? {
                return Poll::Ready(Ok(frame));
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Self::In>, LinkLost> {
        loop {
            if let Some(pack) = self.ready.pop_front() {
                return Ok(Some(Downstream::Pack(pack)));
            }
            match self.down.try_recv() {
                Ok(frame) => {
                    if let Some(frame) = self.handle(frame)? {
                        return Ok(Some(frame));
                    }
                }
                Err(TryRecvError::Empty) if self.held.is_empty() => return Ok(None),
                Err(TryRecvError::Empty) => self.release(),
                Err(TryRecvError::Disconnected) => return Err(gone(&self.last_word)),
            }
        }
    }

    fn close(&mut self, why: &LinkLost) {
        self.last_word.get_or_init(|| why.as_heard());
        self.up.close();
        self.down.close();
    }

    fn is_network(&self) -> bool {
        false
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            transport: "memory",
            packs: self.packs,
            ..LinkReport::default()
        }
    }

    fn bytes_copied(&self) -> u64 {
        0
    }
}

fn gone(last_word: &LastWord) -> LinkLost {
    let dropped = || LinkLost::Closed("the other end was dropped".into());
    last_word.get().cloned().unwrap_or_else(dropped)
}
