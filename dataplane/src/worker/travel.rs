//! Compresses the packs of one session, in the compression pool, or leaves them plain. With AUTO the faster
//! form is used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::auto::{Auto, Plan, Standing};
use super::bell::Bell;
use super::clock;
use super::compress::{Done, Job, Purpose};
use super::server_state::ServerState;
use super::task::Task;
use crate::proto::message::{Grant, TaskId};
use crate::proto::send::{SendHalf, TaskPack};
use crate::transport::{Body, Compression};

/// Maximum number of packs of one session under compression.
const COMPRESSING_MAX: usize = 8;

/// The part of a session between its tasks and its link, which compresses packs.
#[derive(Debug)]
pub(super) struct Travel {
    server: Arc<ServerState>,
    bell: Arc<Bell>,
    /// True if the link crosses a network. On other links nothing is compressed (D2.6).
    is_network: bool,
    tasks: BTreeMap<TaskId, Habit>,
    done: mpsc::UnboundedReceiver<Done>,
    say_done: mpsc::UnboundedSender<Done>,
    compressing: usize,
    /// The total size of compressed packs, in bytes.
    compressed_bytes: u64,
    round_trip: Option<Duration>,
}

/// The compression of the packs of one task.
#[derive(Debug)]
enum Habit {
    Compressed,
    Auto(Box<Auto>),
}

impl Travel {
    pub(super) fn new(server: Arc<ServerState>, bell: Arc<Bell>, is_network: bool) -> Self {
        // The channel needs no limit of its own: a session stops taking packs at COMPRESSING_MAX packs, and
        // has at most one sample for each task.
        let (say_done, done) = mpsc::unbounded_channel();
        Self {
            server,
            bell,
            is_network,
            tasks: BTreeMap::new(),
            done,
            say_done,
            compressing: 0,
            compressed_bytes: 0,
            round_trip: None,
        }
    }

    /// Begins with a task, with the compression of the task or of the server.
    pub(super) fn subscribe(&mut self, task: &Task, now: Instant) {
        let config = &self.server.config;
        let habit = match task.compression.get().unwrap_or(&config.compression) {
            _ if !self.is_network => None,
            Compression::None => None,
            Compression::Lz4 => Some(Habit::Compressed),
            Compression::Auto => {
                let auto = Auto::new(config.compress_threads, now);
                Some(Habit::Auto(Box::new(auto)))
            }
        };
        match habit {
            Some(habit) => self.tasks.insert(task.id, habit),
            None => self.tasks.remove(&task.id),
        };
    }

    pub(super) fn forget(&mut self, task: TaskId) {
        self.tasks.remove(&task);
    }

    /// Records the present round-trip time of the link.
    pub(super) fn note_round_trip(&mut self, round_trip: Option<Duration>) {
        self.round_trip = round_trip;
    }

    /// Records that a task has no element although its client has credits.
    pub(super) fn note_starved(&mut self, task: TaskId, now: Instant) {
        if let Some(auto) = self.auto(task) {
            auto.note_starved(now);
        }
    }

    /// Records a grant that `half` has booked.
    pub(super) fn note_grant(&mut self, grant: &Grant, half: &SendHalf, now: Instant) {
        let round_trip = self.round_trip;
        if let Some(auto) = self.auto(grant.task) {
            let standing = Standing {
                received: half.acknowledged(),
                waiting: grant.waiting.unwrap_or_default(),
                unspent: half.unspent(),
                round_trip,
            };
            auto.note_grant(now, standing);
        }
    }

    /// Returns the number of bytes that compression wrote for this session. Bytes written by compression
    /// count as copied bytes.
    pub(super) fn compressed_bytes(&self) -> u64 {
        self.compressed_bytes
    }

    /// Returns whether another pack may be taken from a task.
    pub(super) fn has_room(&self) -> bool {
        self.compressing < COMPRESSING_MAX
    }

    /// Submits a pack for compression, or returns the pack if it should be sent at once.
    pub(super) fn dispatch(&mut self, elements: TaskPack, now: Instant) -> Option<TaskPack<Body>> {
        let plan = match self.tasks.get_mut(&elements.task) {
            None => Plan::Plain,
            Some(Habit::Compressed) => Plan::Compressed,
            Some(Habit::Auto(auto)) => {
                let (count, bytes) = (elements.pack.len() as u64, elements.pack.region().len() as u64);
                auto.plan(now, elements.first + count, count, bytes)
            }
        };
        let elements = match plan {
            Plan::Plain => elements,
            Plan::Sampled => {
                if self.submit(elements.clone(), Purpose::Sample).is_err()
                    && let Some(auto) = self.auto(elements.task)
                {
                    auto.note_sample(now, None);
                }
                elements
            }
            Plan::Compressed => match self.submit(elements, Purpose::Send) {
                Ok(()) => {
                    self.compressing += 1;
                    return None;
                }
                // The compression queue is full, so the pack is sent plain.
                Err(elements) => elements,
            },
        };
        Some(elements.into())
    }

    /// Returns the next pack from the compression pool, if any.
    pub(super) fn next_compressed(&mut self) -> Option<TaskPack<Body>> {
        while let Ok(done) = self.done.try_recv() {
            match done {
                Done::Sampled { task, sample } => {
                    if let Some(auto) = self.auto(task) {
                        auto.note_sample(clock::now(), sample);
                    }
                }
                Done::Compressed { out, sample } => {
                    self.compressing -= 1;
                    if let Body::Lz4 { block, .. } = &out.pack {
                        self.compressed_bytes += block.len() as u64;
                    }
                    if let Some((auto, sample)) = self.auto(out.task).zip(sample) {
                        auto.note_compressed(sample);
                    }
                    return Some(out);
                }
            }
        }
        None
    }

    fn auto(&mut self, task: TaskId) -> Option<&mut Auto> {
        match self.tasks.get_mut(&task)? {
            Habit::Auto(auto) => Some(auto),
            Habit::Compressed => None,
        }
    }

    fn submit(&self, elements: TaskPack, purpose: Purpose) -> Result<(), TaskPack> {
        self.server.compress.submit(Job {
            elements,
            purpose,
            done: self.say_done.clone(),
            bell: self.bell.clone(),
        })
    }
}
