//! The serving side of a worker: tasks produce elements into buffers, and sessions carry the elements to
//! clients.
//!
//! - [`buffer`] holds the elements of one task that wait for a credit; `buffer_limits` defines its limits.
//! - [`producer`] is the end of a buffer to which a pipeline writes.
//! - `mode` lists the ways to divide a task's elements among clients; `place` is the place that a client asks
//!   for.
//! - `division` decides which client gets which elements; `groups` decides for coordinated reads; `queue`
//!   holds packs with waiting elements.
//! - `pack_limits` defines the limits of packs.
//! - [`ArenaConfig`] is the memory that tasks may share with readers of the host; `alloc` chooses the memory
//!   for a task's elements.
//! - `window` is the window of a cross-trainer cache; `cache` limits the memory of all windows together.
//! - `owed` records the elements that clients took and have not acknowledged.
//! - `turns` decides which client is served first if several clients wait for elements.
//! - `task` is a task and its subscriptions.
//! - [`server`] owns all tasks of a worker; `server_state` is the state that sessions share; `server_config`
//!   defines the limits.
//! - `session` serves one link; `bell` notifies it of elements; `wake_request` is its request for a
//!   notification.
//! - `clock` is the time of sessions.
//! - `travel` chooses the form in which packs are sent; `auto` decides whether compression pays off.
//! - `compress` is the thread pool that compresses packs.
//!
//! The code uses the transport trait and names no transport.

#[cfg(target_os = "linux")]
mod alloc;
mod arena_config;
mod auto;
mod bell;
pub mod buffer;
mod buffer_limits;
mod cache;
mod clock;
mod compress;
mod debts;
mod division;
mod groups;
mod mode;
mod owed;
mod pack_limits;
mod place;
pub mod producer;
mod queue;
pub mod server;
mod server_config;
mod server_state;
mod session;
mod task;
#[cfg(test)]
mod tests;
mod travel;
mod turns;
mod wake_request;
mod window;

pub use arena_config::{ArenaConfig, ArenaStats};
pub use buffer::{Mark, Take};
pub use buffer_limits::BufferLimits;
pub use cache::{CacheLimits, CacheStats};
pub use mode::TaskMode;
pub use producer::{ProduceError, Producer, Stopped};
pub use server::{AddTaskError, MissedSplits, Server, SessionEnd, SharedSplits};
pub use server_config::{OnTaken, ServerConfig};
pub use server_state::ServerCounters;
pub use window::TRAINER_ID_BYTES_MAX;
