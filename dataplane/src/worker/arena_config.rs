//! The memory that tasks may share with readers of the same host, and its statistics.
//!
//! This file does not know how memory is shared.

use millstream_element::Pool;

/// The memory that tasks may share with readers of the same host, where the system can (Linux).
#[derive(Debug, Clone)]
pub struct ArenaConfig {
    /// Addresses of one task's arena, in bytes; default 512 MiB, half of the memory that a worker has for
    /// elements by default: the largest cross-trainer cache and as much on its way. Memory is taken as it is
    /// needed, unless pages are huge.
    pub task_bytes: usize,
    /// Memory of all arenas at most, in bytes; default 768 MiB, three quarters of that memory, so that what
    /// readers of the host keep never takes everything from those elsewhere. 0: nothing is shared.
    pub all_bytes: usize,
    /// Whether arenas are made of huge pages where the system has some set aside, each arena of `task_bytes`
    /// at once; default no, since few systems have.
    pub huge_pages: bool,
    /// The pool of the worker's own memory, of whose budget the arenas' memory is then a part.
    pub pool: Option<Pool>,
}

impl Default for ArenaConfig {
    fn default() -> Self {
        Self {
            task_bytes: 512 << 20,
            all_bytes: 768 << 20,
            huge_pages: false,
            pool: None,
        }
    }
}

/// The memory in the arenas of a worker, and the number of times that it was not enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Bytes of memory of all arenas, in use or kept to be used again.
    pub held_bytes: u64,
    /// The most that they may hold, in bytes.
    pub limit_bytes: u64,
    /// Slots that were taken from the worker's own memory, since the arena of their task had no room: what is
    /// in them is copied for readers of the host.
    pub fallbacks: u64,
}
