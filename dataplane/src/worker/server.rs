//! All tasks of a worker, and who may read them.
//!
//! Owns the table of tasks and the key that tickets are checked with. Refuses to know how links come about.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use millstream_element::{ElementSpec, Layout, ShapeError, SlotAlloc};
use millstream_link::ticket::TicketKey;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::sync::Notify;

#[cfg(target_os = "linux")]
use super::alloc::{Arenas, TaskAlloc};
use super::arena_config::ArenaStats;
use super::buffer::TaskBuffer;
use super::cache::{Cache, CacheStats};
use super::clock;
use super::compress::CompressPool;
use super::debts::Debts;
use super::mode::TaskMode;
use super::producer::{Producer, typical_element_bytes};
use super::server_config::ServerConfig;
use super::server_state::{ServerCounters, ServerState};
use super::session;
use super::task::Task;
use crate::proto::message::TaskId;
#[cfg(target_os = "linux")]
use crate::transport::Arena;
use crate::transport::{Compression, ELEMENT_BYTES_MAX, LinkReport, WorkerLink};

pub use super::session::SessionEnd;

/// Why a task is not served. The caller's mistake, but for `TooMany`.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AddTaskError {
    /// The task is there already.
    #[error("task {task} is served already")]
    Served {
        /// The task.
        task: TaskId,
    },
    /// The server is full.
    #[error("task {task} finds no place: this worker serves {tasks_max} tasks, as many as it may")]
    TooMany {
        /// The task.
        task: TaskId,
        /// The limit, [`ServerConfig::tasks_max`].
        tasks_max: usize,
    },
    /// The elements are too large to be sent.
    #[error(
        "an element of task {task} takes {element_bytes} bytes, it can have {ELEMENT_BYTES_MAX} at most; make smaller \
         batches"
    )]
    ElementTooLarge {
        /// The task.
        task: TaskId,
        /// The bytes of each of its elements.
        element_bytes: usize,
    },
    /// The elements are too large for any memory.
    #[error("task {task}: {source}")]
    Shape {
        /// The task.
        task: TaskId,
        /// The fault of its specification.
        source: ShapeError,
    },
}

/// Splits of which a client that is gone had elements that its user was not done with (D5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedSplits {
    /// The task that they were leased to.
    pub task: TaskId,
    /// The client.
    pub client: u64,
    /// Their leases, ascending.
    pub leases: Vec<u64>,
}

/// Splits that ended while a client and others had elements of them in hand (D5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSplits {
    /// The task that they were leased to.
    pub task: TaskId,
    /// The client.
    pub client: u64,
    /// Their leases, ascending.
    pub leases: Vec<u64>,
}

/// The data plane of a worker. Cheap to clone; all clones are the same server.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<ServerState>,
}

impl Server {
    /// A server without tasks. Fails when a thread cannot be started.
    pub fn new(config: ServerConfig, key: TicketKey, alloc: &Arc<dyn SlotAlloc>) -> std::io::Result<Self> {
        let compress = CompressPool::start(config.compress_threads, alloc)?;
        let (tasks, counters, links) = (RwLock::default(), ServerCounters::default(), Mutex::default());
        let cache = Arc::new(Cache::new(config.cache));
        Ok(Self {
            inner: Arc::new(ServerState {
                #[cfg(target_os = "linux")]
                arenas: Arc::new(Arenas::new(&config.arenas)),
                config,
                key,
                tasks,
                counters,
                missed: Notify::new(),
                cache,
                links,
                compress,
            }),
        })
    }

    /// The most tasks that it serves at a time.
    pub fn tasks_max(&self) -> usize {
        self.inner.config.tasks_max
    }

    /// Adds a task with elements of `spec`, divided among its clients as `mode` says. They are produced into
    /// slots of `alloc`, or of the task's arena once it has one ([`Server::arena`]).
    ///
    /// # Errors
    /// [`AddTaskError`]: the task is there already, there are too many, or an element of it is larger than
    /// any can be.
    pub fn add_task(
        &self,
        id: TaskId,
        mode: TaskMode,
        spec: &ElementSpec,
        alloc: Arc<dyn SlotAlloc>,
    ) -> Result<Producer, AddTaskError> {
        let layout = Layout::new(spec.clone()).map_err(|source| AddTaskError::Shape { task: id, source })?;
        let element_bytes = typical_element_bytes(&layout);
        if element_bytes > ELEMENT_BYTES_MAX {
            return Err(AddTaskError::ElementTooLarge {
                task: id,
                element_bytes,
            });
        }
        let tasks_max = self.inner.config.tasks_max;
        let mut tasks = self.inner.tasks.write();
        if tasks.contains_key(&id) {
            return Err(AddTaskError::Served { task: id });
        }
        if tasks.len() >= tasks_max {
            return Err(AddTaskError::TooMany { task: id, tasks_max });
        }
        let buffer = Arc::new(TaskBuffer::new(self.inner.config.buffer, mode, &self.inner.cache));
        #[cfg(target_os = "linux")]
        let alloc = Arc::new(TaskAlloc::new(id, alloc, &self.inner.arenas));
        let task = Task::new(
            id,
            spec.to_bytes(),
            element_bytes as u64,
            buffer.clone(),
            #[cfg(target_os = "linux")]
            alloc.clone(),
        );
        tasks.insert(id, Arc::new(task));
        Ok(Producer::new(buffer, alloc, layout))
    }

    /// Has a task's packs travel like this over networks, whatever [`ServerConfig::compression`] says. To be
    /// said before its clients subscribe, and once; a task that is not there is left alone.
    pub fn compress_task(&self, id: TaskId, compression: Compression) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            // A second word on it would come too late.
            let _ = task.compression.set(compression);
        }
    }

    /// The arena of a task, made now if it had none; its elements are written there from now on, for readers
    /// of the host to see without a copy. `None` for an unknown task, and where nothing can be shared, which
    /// was logged.
    #[cfg(target_os = "linux")]
    pub fn arena(&self, id: TaskId) -> Option<Arc<Arena>> {
        let task = self.inner.tasks.read().get(&id).cloned()?;
        task.alloc.arena()
    }

    /// Removes a task and stops its producer. Its clients hear nothing of that here, since it is no end of
    /// the data (D5.5); what it had produced still reaches those that are connected.
    pub fn remove_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.write().remove(&id) {
            task.buffer.stop();
        }
    }

    /// Lets a task begin though no client has asked for an element of it: one whose sources have nothing for
    /// it any more says so itself, and its clients hear of its end.
    pub fn begin_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            task.buffer.begin();
        }
    }

    /// Returns whether a task produced its last element, all of them left its buffer, and the end has reached
    /// its clients: each has cancelled, or stayed away for so long that it is forgotten, with everything that
    /// it was sent acknowledged. True for an unknown task.
    pub fn is_settled(&self, id: TaskId) -> bool {
        let task = self.inner.tasks.read().get(&id).cloned();
        task.is_none_or(|task| {
            self.forget_absent_of(&task, clock::now());
            task.is_settled()
        })
    }

    /// Forgets clients that lost their link longer than `resume_within` ago, and frees what was kept for
    /// them; gives back to the system what arenas have not needed since the last time. The owner of the
    /// server calls it every few seconds.
    pub fn forget_absent(&self) {
        let tasks: Vec<Arc<Task>> = self.inner.tasks.read().values().cloned().collect();
        let now = clock::now();
        for task in tasks {
            self.forget_absent_of(&task, now);
            #[cfg(target_os = "linux")]
            task.alloc.give_back_if_idle();
        }
    }

    fn forget_absent_of(&self, task: &Task, now: Instant) {
        if task.forget_absent(self.inner.config.resume_within, now) {
            self.inner.missed.notify_one();
        }
    }

    /// Waits until [`Server::take_missed`] or [`Server::take_shared`] may have something. Cancel-safe.
    pub async fn has_missed(&self) {
        self.inner.missed.notified().await;
    }

    /// Takes the splits that clients took with them when they went, each once. The caller tells the
    /// dispatcher, and then [`Server::note_heard`].
    pub fn take_missed(&self) -> Vec<MissedSplits> {
        let tasks: Vec<Arc<Task>> = self.inner.tasks.read().values().cloned().collect();
        let missed = tasks.iter().flat_map(|task| {
            let missed = task.buffer.with_debts(Debts::take_untold).into_iter();
            missed.map(|(client, leases)| MissedSplits {
                task: task.id,
                client,
                leases,
            })
        });
        missed.collect()
    }

    /// Returns the splits that several clients have in hand and that hold others up, each once for each of
    /// these clients: the caller tells the dispatcher, and then [`Server::note_shared`].
    pub fn take_shared(&self) -> Vec<SharedSplits> {
        let tasks: Vec<Arc<Task>> = self.inner.tasks.read().values().cloned().collect();
        let shared = tasks.iter().flat_map(|task| {
            let shared = task.buffer.with_debts(Debts::take_shared).into_iter();
            shared.map(|(client, leases)| SharedSplits {
                task: task.id,
                client,
                leases,
            })
        });
        shared.collect()
    }

    /// Books that the dispatcher knows of a client that has these splits in hand. Their ends are told once it
    /// knows of all of these clients.
    pub fn note_shared(&self, shared: &SharedSplits) {
        if let Some(task) = self.inner.tasks.read().get(&shared.task) {
            task.buffer.note_shared(shared.client, &shared.leases);
        }
    }

    /// Books that the dispatcher knows of these splits. The task's end waits for that.
    pub fn note_heard(&self, missed: &MissedSplits) {
        if let Some(task) = self.inner.tasks.read().get(&missed.task) {
            task.buffer.note_heard(missed.client, &missed.leases);
        }
    }

    /// Serves a client of a task no more, whatever ticket it has: the dispatcher has ended it. Returns what
    /// it took with it, as far as the dispatcher may not know it; nothing for an unknown task.
    pub fn release(&self, task: TaskId, client: u64) -> MissedSplits {
        let known = self.inner.tasks.read().get(&task).cloned();
        let leases = known.map_or_else(Vec::new, |task| task.release(client));
        MissedSplits { task, client, leases }
    }

    /// Returns the counters of the server.
    pub fn counters(&self) -> &ServerCounters {
        &self.inner.counters
    }

    /// Returns the statistics of the cross-trainer caches of all tasks.
    pub fn cache(&self) -> CacheStats {
        self.inner.cache.stats()
    }

    /// Returns the memory in the arenas of all tasks and the number of times that it was not enough; nothing
    /// where the system has no arenas.
    pub fn arenas(&self) -> ArenaStats {
        #[cfg(target_os = "linux")]
        return self.inner.arenas.stats();
        #[cfg(not(target_os = "linux"))]
        ArenaStats::default()
    }

    /// Returns the properties of the links being served, a moment ago.
    pub fn links(&self) -> Vec<LinkReport> {
        self.inner.links.lock().values().cloned().collect()
    }

    /// Serves a link until it ends. Not cancel-safe in the sense that dropping the future closes the link;
    /// subscriptions stay for the client to resume.
    pub async fn serve(&self, link: Box<WorkerLink>) -> SessionEnd {
        let number = self.inner.counters.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        session::serve(link, self.inner.clone(), number).await
    }
}
