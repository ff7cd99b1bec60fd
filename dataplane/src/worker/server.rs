//! All tasks of a worker, and who may read them.
//!
//! Owns the table of tasks and the key that tickets are checked with. Refuses to know how links come about.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_element::{ElementSpec, Layout, ShapeError, SlotAlloc};
use millstream_link::ticket::{Ticket, TicketKey};
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::sync::Notify;

#[cfg(target_os = "linux")]
use super::alloc::{Arenas, TaskAlloc};
use super::arena_config::{ArenaConfig, ArenaStats};
use super::buffer::{BufferLimits, TaskBuffer};
use super::cache::{Cache, CacheLimits, CacheStats};
use super::clock;
use super::compress::CompressPool;
use super::debts::Debts;
use super::division::{Role, TaskMode};
use super::producer::{Producer, typical_element_bytes};
use super::session;
use super::task::{Attach, Attached, Denied, SubscriptionLimits, Task};
use crate::proto::message::{RefusalCode, Subscribe, TaskId};
use crate::proto::send::SendLimits;
#[cfg(target_os = "linux")]
use crate::transport::Arena;
use crate::transport::{Compression, ELEMENT_BYTES_MAX, LinkReport, WorkerLink};

pub use super::session::SessionEnd;

/// Is told how many elements just left a task's buffer.
pub type OnTaken = Arc<dyn Fn(u64) + Send + Sync>;

/// The limits and habits of a [`Server`].
#[derive(Clone)]
pub struct ServerConfig {
    /// How long a task may have nothing ready before it gives its credits back; default 50 ms, so that a stuck task
    /// holds up a reader with one credit for no longer.
    pub patience: Duration,
    /// How long a client that lost its link may stay away and still resume; default 60 s.
    pub resume_within: Duration,
    /// Bytes sent to one client of a task that it has not acknowledged, after which it is sent nothing fresh; default
    /// 64 MiB, four times what 25 Gbit/s carry in 5 ms, so that no client takes the memory of all tasks.
    pub unacknowledged_bytes: u64,
    /// What each task may hold ready.
    pub buffer: BufferLimits,
    /// What tasks may keep for the trainers of a cross-trainer cache.
    pub cache: CacheLimits,
    /// What tasks may share with readers of the same host.
    pub arenas: ArenaConfig,
    /// Tasks served at a time; default 4096.
    pub tasks_max: usize,
    /// Subscriptions on one link; default 1024.
    pub subscriptions_per_link_max: usize,
    /// Compression on networks, of tasks that do not say otherwise; default AUTO.
    pub compression: Compression,
    /// Threads that compress; default 1.
    pub compress_threads: usize,
    /// Is told of elements that leave the buffers; for gauges.
    pub on_taken: Option<OnTaken>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_millis(50),
            resume_within: Duration::from_secs(60),
            unacknowledged_bytes: 64 << 20,
            buffer: BufferLimits::default(),
            cache: CacheLimits::default(),
            arenas: ArenaConfig::default(),
            tasks_max: 4096,
            subscriptions_per_link_max: 1024,
            compression: Compression::Auto,
            compress_threads: 1,
            on_taken: None,
        }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("patience", &self.patience)
            .field("buffer", &self.buffer)
            .field("cache", &self.cache)
            .field("arenas", &self.arenas)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

/// Why a task is not served. The caller's mistake, but for `TooMany`.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AddTaskError {
    /// It is there already.
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
    /// Its elements are too large to be sent.
    #[error(
        "an element of task {task} takes {element_bytes} bytes, it can have {ELEMENT_BYTES_MAX} at most; make smaller \
         batches"
    )]
    ElementTooLarge {
        /// The task.
        task: TaskId,
        /// What each of its elements takes, in bytes.
        element_bytes: usize,
    },
    /// Its elements are too large for any memory.
    #[error("task {task}: {source}")]
    Shape {
        /// The task.
        task: TaskId,
        /// What is wrong with its specification.
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

/// What a server did so far.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Elements that left the buffers.
    pub elements: AtomicU64,
    /// Bytes of them.
    pub bytes: AtomicU64,
    /// Packs they travelled in.
    pub packs: AtomicU64,
    /// Payload bytes that this end copied for all links, as [`LinkReport::bytes_copied`] counts them.
    pub bytes_copied: AtomicU64,
    /// Sessions served in all.
    pub sessions: AtomicU64,
}

/// The data plane of a worker. Cheap to clone; all clones are the same server.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: ServerConfig,
    key: TicketKey,
    tasks: RwLock<BTreeMap<TaskId, Arc<Task>>>,
    pub(super) counters: ServerCounters,
    /// Told when a client took splits with it, and when several have one in hand that holds others up.
    pub(super) missed: Notify,
    cache: Arc<Cache>,
    #[cfg(target_os = "linux")]
    arenas: Arc<Arenas>,
    /// What each live session last said of its link.
    pub(super) links: Mutex<BTreeMap<u64, LinkReport>>,
    pub(super) compress: CompressPool,
}

impl Server {
    /// A server without tasks. Fails when a thread cannot be started.
    pub fn new(config: ServerConfig, key: TicketKey, alloc: &Arc<dyn SlotAlloc>) -> std::io::Result<Self> {
        let compress = CompressPool::start(config.compress_threads, alloc)?;
        let (tasks, counters, links) = (RwLock::default(), ServerCounters::default(), Mutex::default());
        let cache = Arc::new(Cache::new(config.cache));
        Ok(Self {
            inner: Arc::new(Inner {
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

    /// Adds a task whose elements are as `spec` says, are divided among its clients as `mode` says, and are produced into
    /// slots of `alloc`, or of the task's arena once it has one ([`Server::arena`]).
    ///
    /// # Errors
    /// [`AddTaskError`]: the task is there already, there are too many, or an element of it is larger than any can be.
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

    /// Has a task's packs travel like this over networks, whatever [`ServerConfig::compression`] says. To be said before its clients
    /// subscribe, and once; a task that is not there is left alone.
    pub fn compress_task(&self, id: TaskId, compression: Compression) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            // A second word on it would come too late.
            let _ = task.compression.set(compression);
        }
    }

    /// The arena of a task, made now if it had none; its elements are written there from now on, for readers of the host to see
    /// without a copy. `None` for an unknown task, and where nothing can be shared, which was logged.
    #[cfg(target_os = "linux")]
    pub fn arena(&self, id: TaskId) -> Option<Arc<Arena>> {
        let task = self.inner.tasks.read().get(&id).cloned()?;
        task.alloc.arena()
    }

    /// Removes a task and stops its producer. Its clients hear nothing of that here, since it is no end of the data
    /// (D5.5); what it had produced still reaches those that are connected.
    pub fn remove_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.write().remove(&id) {
            task.buffer.stop();
        }
    }

    /// Lets a task begin though no client has asked for an element of it: one whose sources have nothing for it any more says
    /// so itself, and its clients hear of its end.
    pub fn begin_task(&self, id: TaskId) {
        if let Some(task) = self.inner.tasks.read().get(&id) {
            task.buffer.begin();
        }
    }

    /// Whether a task produced its last element, all of them left its buffer, and the end has reached its clients: each
    /// has cancelled, or stayed away for so long that it is forgotten, with everything that it was sent acknowledged. True
    /// for an unknown task.
    pub fn is_settled(&self, id: TaskId) -> bool {
        let task = self.inner.tasks.read().get(&id).cloned();
        task.is_none_or(|task| {
            self.forget_absent_of(&task, clock::now());
            task.is_settled()
        })
    }

    /// Forgets clients that lost their link longer than `resume_within` ago, and frees what was kept for them; gives back to the
    /// system what arenas have not needed since the last time. Whoever runs the server calls it every few seconds.
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

    /// What clients that are gone took with them, each once: the caller tells the dispatcher, and then [`Server::note_heard`].
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

    /// Returns the splits that several clients have in hand and that hold others up, each once for each of these clients: the caller
    /// tells the dispatcher, and then [`Server::note_shared`].
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

    /// Books that the dispatcher knows of a client that has these splits in hand. Their ends are told once it knows of all of these
    /// clients.
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

    /// Serves a client of a task no more, whatever ticket it has: the dispatcher has ended it. Returns what it took with it, as far
    /// as the dispatcher may not know it; nothing for an unknown task.
    pub fn release(&self, task: TaskId, client: u64) -> MissedSplits {
        let known = self.inner.tasks.read().get(&task).cloned();
        let leases = known.map_or_else(Vec::new, |task| task.release(client));
        MissedSplits { task, client, leases }
    }

    /// What happened so far.
    pub fn counters(&self) -> &ServerCounters {
        &self.inner.counters
    }

    /// What the cross-trainer caches of all tasks did so far, and hold now.
    pub fn cache(&self) -> CacheStats {
        self.inner.cache.stats()
    }

    /// What the arenas of all tasks hold now, and how often they were not enough; nothing where the system has none.
    pub fn arenas(&self) -> ArenaStats {
        #[cfg(target_os = "linux")]
        return self.inner.arenas.stats();
        #[cfg(not(target_os = "linux"))]
        ArenaStats::default()
    }

    /// What is in force on the links being served, a moment ago.
    pub fn links(&self) -> Vec<LinkReport> {
        self.inner.links.lock().values().cloned().collect()
    }

    /// Serves a link until it ends. Not cancel-safe in the sense that dropping the future closes the link; subscriptions
    /// stay for the client to resume.
    pub async fn serve(&self, link: Box<WorkerLink>) -> SessionEnd {
        let number = self.inner.counters.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        session::serve(link, self.inner.clone(), number).await
    }
}

impl Inner {
    /// Checks a ticket and attaches the session to the client's subscription (D3.2).
    pub(super) fn attach(
        &self,
        subscribe: &Subscribe,
        session: u64,
        now: Instant,
    ) -> Result<Attached, Denied> {
        let bad = |message: String| Denied {
            code: RefusalCode::BadTicket,
            message,
        };
        let ticket = Ticket::from_bytes(&subscribe.ticket).map_err(|error| bad(error.to_string()))?;
        let claims = self.key.verify(&ticket).map_err(|error| bad(error.to_string()))?;
        if claims.task != subscribe.task.0 {
            return Err(bad(format!(
                "the ticket is for task {}, not for task {}",
                claims.task, subscribe.task
            )));
        }
        let Some(task) = self.tasks.read().get(&subscribe.task).cloned() else {
            let message = format!("this worker has no task {}", subscribe.task);
            return Err(Denied {
                code: RefusalCode::UnknownTask,
                message,
            });
        };
        let (resume_from, splits_from) = (subscribe.resume_from, subscribe.splits_from);
        let attach = Attach {
            client: claims.client,
            role: Role {
                consumer: claims.consumer,
                trainer: subscribe.trainer_id.as_deref(),
            },
            session,
            resume_from,
            splits_from,
            asked_before: subscribe.asked_before,
        };
        let limits = SubscriptionLimits {
            send: SendLimits {
                patience: self.config.patience,
                unacknowledged_bytes: self.config.unacknowledged_bytes,
            },
            resume_within: self.config.resume_within,
        };
        let subscription = task.attach(attach, limits, now)?;
        Ok(Attached {
            client: claims.client,
            task,
            state: subscription,
        })
    }
}
