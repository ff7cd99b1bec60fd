//! All tasks of a worker, and the admission of clients to the tasks.
//!
//! The server owns the table of tasks and the key with which tickets are checked. The creation of links is
//! unknown to it.

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

/// The reason for which a task is not served. The caller is at fault, except for `TooMany`.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AddTaskError {
    /// The server already serves the task.
    #[error("task {task} is already served")]
    Served {
        /// The id of the task.
        task: TaskId,
    },
    /// The server has the maximum number of tasks.
    #[error("task {task} cannot be added: this worker already serves {tasks_max} tasks, its maximum")]
    TooMany {
        /// The id of the task.
        task: TaskId,
        /// The limit, [`ServerConfig::tasks_max`].
        tasks_max: usize,
    },
    /// The elements of the task are too large to be sent.
    #[error(
        "expected elements of task {task} of at most {ELEMENT_BYTES_MAX} bytes, found {element_bytes} bytes; make smaller \
         batches"
    )]
    ElementTooLarge {
        /// The task.
        task: TaskId,
        /// The size of each element of the task, in bytes.
        element_bytes: usize,
    },
    /// The elements of the task are too large for any memory.
    #[error("task {task}: {source}")]
    Shape {
        /// The task.
        task: TaskId,
        /// The fault of the task's specification.
        source: ShapeError,
    },
}

/// The splits that were lost with a client of a task: the client's user had not finished with elements of
/// these splits (D5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedSplits {
    /// The task to which the splits were leased.
    pub task: TaskId,
    /// The number of the client.
    pub client: u64,
    /// The leases of the splits, ascending.
    pub leases: Vec<u64>,
}

/// The splits that a client of a task holds together with other clients, and that have ended (D5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSplits {
    /// The task to which the splits were leased.
    pub task: TaskId,
    /// The number of the client.
    pub client: u64,
    /// The leases of the splits, ascending.
    pub leases: Vec<u64>,
}

/// The data plane of a worker. Clones are cheap and share the same server.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<ServerState>,
}

impl Server {
    /// Makes a server without tasks. Returns an error if a thread cannot be started.
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

    /// Returns the maximum number of tasks that the server serves at a time.
    pub fn tasks_max(&self) -> usize {
        self.inner.config.tasks_max
    }

    /// Adds a task with elements of `spec`, divided among its clients according to `mode`. Elements are
    /// produced into slots of `alloc`, or of the task's arena after its creation ([`Server::arena`]).
    ///
    /// # Errors
    /// Returns an [`AddTaskError`] if the task exists, if the server has too many tasks, or if an element
    /// exceeds the maximum size.
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

    /// Sets the compression of a task's packs on networks, which overrides [`ServerConfig::compression`]. The
    /// caller must set it once, before the task's clients subscribe. Has no effect for an unknown task.
    pub fn compress_task(&self, id: TaskId, compression: Compression) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            // A second setting is ignored, because clients may have subscribed already.
            let _ = task.compression.set(compression);
        }
    }

    /// Returns the arena of a task, which the first call makes. From then on, elements are written to the
    /// arena, where readers of the host see them without a copy. Returns `None` for an unknown task, or if no
    /// memory can be shared, which is logged.
    #[cfg(target_os = "linux")]
    pub fn arena(&self, id: TaskId) -> Option<Arc<Arena>> {
        let task = self.inner.tasks.read().get(&id).cloned()?;
        task.alloc.arena()
    }

    /// Removes a task and stops its producer. The task's clients are not told, because the removal is not the
    /// end of the data (D5.5). Elements already produced still reach connected clients.
    pub fn remove_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.write().remove(&id) {
            task.buffer.stop();
        }
    }

    /// Lets a task begin without a request of a client. A task whose sources are exhausted then ends, and its
    /// clients receive the end.
    pub fn begin_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            task.buffer.begin();
        }
    }

    /// Returns whether a task is settled: its last element was produced and taken, and its clients have
    /// received the end. A client has received the end if it cancelled. A client that stayed away for too
    /// long counts if it had acknowledged everything.
    ///
    /// Returns true for an unknown task.
    pub fn is_settled(&self, id: TaskId) -> bool {
        let task = self.inner.tasks.read().get(&id).cloned();
        task.is_none_or(|task| {
            self.forget_absent_of(&task, clock::now());
            task.is_settled()
        })
    }

    /// Forgets clients that lost their link more than `resume_within` ago, and frees the elements kept for
    /// these clients. Returns idle memory of arenas to the system. The owner of the server calls the method
    /// every few seconds.
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

    /// Waits until [`Server::take_missed`] or [`Server::take_shared`] may return splits. Cancel-safe.
    pub async fn has_missed(&self) {
        self.inner.missed.notified().await;
    }

    /// Takes the splits that were lost with clients. Each split is returned once for each client. The caller
    /// tells the dispatcher, and then calls [`Server::note_heard`].
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

    /// Takes the ended splits that several clients hold and that hold up other clients. Each split is
    /// returned once for each holder. The caller tells the dispatcher, and then calls
    /// [`Server::note_shared`].
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

    /// Records that the dispatcher knows that a client holds these splits. The holders are told the ends of
    /// the splits after the dispatcher knows all holders.
    pub fn note_shared(&self, shared: &SharedSplits) {
        if let Some(task) = self.inner.tasks.read().get(&shared.task) {
            task.buffer.note_shared(shared.client, &shared.leases);
        }
    }

    /// Records that the dispatcher knows of these lost splits. The end of the task waits for this call.
    pub fn note_heard(&self, missed: &MissedSplits) {
        if let Some(task) = self.inner.tasks.read().get(&missed.task) {
            task.buffer.note_heard(missed.client, &missed.leases);
        }
    }

    /// Stops serving a client of a task, whatever ticket it presents, because the dispatcher has ended the
    /// client. Returns the client's splits that the dispatcher may not know. For an unknown task, returns no
    /// splits.
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

    /// Returns the memory in the arenas of all tasks and the number of allocations for which it did not
    /// suffice. Returns zeroes on systems without arenas.
    pub fn arenas(&self) -> ArenaStats {
        #[cfg(target_os = "linux")]
        return self.inner.arenas.stats();
        #[cfg(not(target_os = "linux"))]
        ArenaStats::default()
    }

    /// Returns the latest report of each link that is being served.
    pub fn links(&self) -> Vec<LinkReport> {
        self.inner.links.lock().values().cloned().collect()
    }

    /// Serves a link until it ends. Dropping the future closes the link, so the call is not cancel-safe.
    /// Subscriptions stay, and the client can resume them.
    pub async fn serve(&self, link: Box<WorkerLink>) -> SessionEnd {
        let number = self.inner.counters.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        session::serve(link, self.inner.clone(), number).await
    }
}
