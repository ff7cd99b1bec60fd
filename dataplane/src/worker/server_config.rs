//! The settings of a worker's data plane, with their defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::arena_config::ArenaConfig;
use super::buffer_limits::BufferLimits;
use super::cache::CacheLimits;
use crate::transport::Compression;

/// A callback that receives the number of elements that just left a task's buffer.
pub type OnTaken = Arc<dyn Fn(u64) + Send + Sync>;

/// The settings of a [`Server`](super::Server).
#[derive(Clone)]
pub struct ServerConfig {
    /// The time for which a task may have no element ready before it gives its credits back. The default is
    /// 50 ms, so that a blocked task holds up a reader with a single credit only briefly.
    pub patience: Duration,
    /// The time for which a client without a link can still resume. The default is 60 s.
    pub resume_within: Duration,
    /// Maximum bytes sent to a client of a task that the client has not acknowledged. At the maximum, the
    /// client is sent nothing fresh. The default is 64 MiB, so that no client takes the memory of all tasks.
    /// The amount is four times what 25 Gbit/s carry in 5 ms.
    pub unacknowledged_bytes: u64,
    /// The limits of the elements that each task may hold ready.
    pub buffer: BufferLimits,
    /// The limits of the elements that tasks keep for the trainers of a cross-trainer cache.
    pub cache: CacheLimits,
    /// The memory that tasks may share with readers of the same host.
    pub arenas: ArenaConfig,
    /// Maximum number of tasks served at a time; default 4096.
    pub tasks_max: usize,
    /// Maximum number of subscriptions on one link; default 1024.
    pub subscriptions_per_link_max: usize,
    /// The compression on networks of tasks without a setting of their own; default AUTO.
    pub compression: Compression,
    /// The number of threads that compress packs; default 1.
    pub compress_threads: usize,
    /// The callback that is called when elements leave the buffers, for gauges.
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
