//! The limits and habits of a worker's data plane, with their defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::arena_config::ArenaConfig;
use super::buffer::BufferLimits;
use super::cache::CacheLimits;
use crate::transport::Compression;

/// A callback that receives the number of elements that just left a task's buffer.
pub type OnTaken = Arc<dyn Fn(u64) + Send + Sync>;

/// The limits and habits of a [`Server`](super::Server).
#[derive(Clone)]
pub struct ServerConfig {
    /// The time for which a task may have nothing ready before it gives its credits back. Default 50 ms, so
    /// that a stuck task holds up a reader with one credit for no longer.
    pub patience: Duration,
    /// The time for which a client that lost its link may stay away and still resume. Default 60 s.
    pub resume_within: Duration,
    /// Bytes sent to one client of a task that it has not acknowledged, after which it is sent nothing fresh;
    /// default 64 MiB, four times what 25 Gbit/s carry in 5 ms, so that no client takes the memory of all
    /// tasks.
    pub unacknowledged_bytes: u64,
    /// The elements that each task may hold ready.
    pub buffer: BufferLimits,
    /// The elements that tasks may keep for the trainers of a cross-trainer cache.
    pub cache: CacheLimits,
    /// The memory that tasks may share with readers of the same host.
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
