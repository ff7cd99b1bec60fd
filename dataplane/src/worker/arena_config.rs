//! Configures the memory that tasks may share with readers of the same host, and defines its statistics.
//!
//! The way in which memory is shared is unknown to this module.

use millstream_element::Pool;

/// The memory that tasks may share with readers of the same host, on systems that support sharing (Linux).
#[derive(Debug, Clone)]
pub struct ArenaConfig {
    /// Maximum size of one task's arena, in bytes; default 512 MiB. The default is half of a worker's default
    /// memory for elements: the largest cross-trainer cache, and as much in flight. Memory is taken when
    /// needed, unless pages are huge.
    pub task_bytes: usize,
    /// Maximum memory of all arenas together, in bytes; default 768 MiB, and 0 shares nothing. The default is
    /// three quarters of a worker's default memory for elements, so that some memory remains for readers on
    /// other hosts.
    pub all_bytes: usize,
    /// True if arenas use huge pages where the system has reserved some. Each arena then takes `task_bytes`
    /// at once. The default is false, because few systems reserve huge pages.
    pub huge_pages: bool,
    /// The pool of the worker's own memory, whose budget then includes the arenas' memory.
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

/// The memory in the arenas of a worker, and the number of allocations for which it did not suffice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// The number of bytes that all arenas hold, in use or kept for later use.
    pub held_bytes: u64,
    /// Maximum number of bytes that all arenas may hold.
    pub limit_bytes: u64,
    /// The number of slots taken from the worker's own memory because the arena of their task had no room.
    /// Elements in slots outside of the arena are copied for readers of the host.
    pub fallbacks: u64,
}
