//! Chooses the memory for a task's elements. A task uses the worker's own memory at first. After a reader of
//! the same host subscribes, the task uses an arena that the reader maps too.
//!
//! The module owns the switch and the budget of all arenas of a worker. Readers are unknown to it: a session
//! reports a reader of the host.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millstream_element::{AllocError, SlotAlloc, SlotMut};

use super::arena_config::{ArenaConfig, ArenaStats};
use crate::TaskId;
use crate::transport::{Arena, ArenaBudget, PageKind};

/// The state that all arenas of a worker share.
#[derive(Debug)]
pub(super) struct Arenas {
    config: ArenaConfig,
    budget: ArenaBudget,
    fallbacks: AtomicU64,
}

impl Arenas {
    pub(super) fn new(config: &ArenaConfig) -> Self {
        Self {
            budget: ArenaBudget::new(config.all_bytes, config.pool.clone()),
            config: config.clone(),
            fallbacks: AtomicU64::new(0),
        }
    }

    pub(super) fn stats(&self) -> ArenaStats {
        ArenaStats {
            held_bytes: self.budget.held_bytes() as u64,
            limit_bytes: self.budget.limit_bytes() as u64,
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
        }
    }
}

/// The allocator of one task's slots.
pub(super) struct TaskAlloc {
    task: TaskId,
    heap: Arc<dyn SlotAlloc>,
    arenas: Arc<Arenas>,
    /// The task's arena. Empty until a reader of the host subscribes; `None` inside if no arena could be
    /// made.
    arena: OnceLock<Option<Arc<Arena>>>,
    has_told_of_fallback: AtomicBool,
}

impl TaskAlloc {
    pub(super) fn new(task: TaskId, heap: Arc<dyn SlotAlloc>, arenas: &Arc<Arenas>) -> Self {
        Self {
            task,
            heap,
            arenas: arenas.clone(),
            arena: OnceLock::new(),
            has_told_of_fallback: AtomicBool::new(false),
        }
    }

    /// Returns the task's arena, from which the task's slots are taken from now on. The first call makes the
    /// arena. Returns `None` if the worker shares no memory, or if the arena could not be made; the attempt
    /// is not repeated.
    pub(super) fn arena(&self) -> Option<Arc<Arena>> {
        self.arena.get_or_init(|| self.make()).clone()
    }

    /// Returns memory to the system that the arena has not needed since the last call.
    pub(super) fn give_back_if_idle(&self) {
        if let Some(arena) = self.made() {
            arena.give_back_if_idle();
        }
    }

    fn made(&self) -> Option<&Arc<Arena>> {
        self.arena.get().and_then(Option::as_ref)
    }

    fn make(&self) -> Option<Arc<Arena>> {
        let (config, task) = (&self.arenas.config, self.task);
        if config.all_bytes == 0 {
            return None;
        }
        match Arena::new(config.task_bytes, config.huge_pages, &self.arenas.budget) {
            Ok(arena) => {
                if let PageKind::SmallInstead { why } = arena.kind() {
                    tracing::warn!(%task, why, "the task's shared memory does not use huge pages");
                }
                Some(Arc::new(arena))
            }
            Err(error) => {
                tracing::warn!(%task, %error, bytes = config.task_bytes, "the task has no shared memory");
                None
            }
        }
    }

    fn note_fallback(&self, why: AllocError) {
        self.arenas.fallbacks.fetch_add(1, Ordering::Relaxed);
        if !self.has_told_of_fallback.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                task = %self.task,
                %why,
                "elements are copied for readers of this host, because the task's shared memory is used up: raise \
                 --shm-bytes-per-task or --shm-bytes, or let readers keep fewer elements"
            );
        }
    }
}

impl SlotAlloc for TaskAlloc {
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        let why = match self.made().map(|arena| arena.alloc(size_bytes)) {
            Some(Ok(slot)) => return Ok(slot),
            Some(Err(why)) => Some(why),
            None => None,
        };
        let mut slot = self.heap.alloc(size_bytes);
        if matches!(slot, Err(AllocError::Exhausted { .. })) && self.arenas.budget.held_bytes() > 0 {
            // Idle memory of the arenas is charged to the same budget, so the arenas return it before the
            // second attempt.
            self.arenas.budget.give_back();
            slot = self.heap.alloc(size_bytes);
        }
        if let (Ok(_), Some(why)) = (&slot, why) {
            self.note_fallback(why);
        }
        slot
    }
}

impl fmt::Debug for TaskAlloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskAlloc")
            .field("task", &self.task)
            .field("arena", &self.arena.get())
            .finish_non_exhaustive()
    }
}
