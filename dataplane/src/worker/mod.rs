//! The serving side: tasks produce into buffers, sessions carry from there to clients.
//!
//! - [`buffer`]: the elements of one task that wait for a credit
//! - [`producer`]: the end of it that a pipeline writes to
//! - `division`: which client gets which of them; `groups`: in coordinated reads
//! - [`ArenaConfig`]: what they may share with readers of the host; `alloc`: where a task's elements are written
//! - `window`: in a cross-trainer cache; `cache`: what all of those may keep
//! - `owed`: who took which elements and has not acknowledged them
//! - `turns`: whose turn it is where several clients wait for elements
//! - `task`: a task and its subscriptions
//! - [`server`]: all tasks of a worker, and who may read them
//! - `session`: one link, served; `bell`: how it hears of elements; `wake_request`: that it wants to
//! - `clock`: what time it is for them
//! - `travel`: how its packs travel; `auto`: whether compressed, where that is not said
//! - `compress`: the pool that compresses packs
//!
//! Written against the transport trait: nothing here names a mechanism.

#[cfg(target_os = "linux")]
mod alloc;
mod arena_config;
mod auto;
mod bell;
pub mod buffer;
mod cache;
mod clock;
mod compress;
mod debts;
mod division;
mod groups;
mod owed;
pub mod producer;
pub mod server;
mod session;
mod task;
#[cfg(test)]
mod tests;
mod travel;
mod turns;
mod wake_request;
mod window;

pub use arena_config::{ArenaConfig, ArenaStats};
pub use buffer::{BufferLimits, Mark, Take};
pub use cache::{CacheLimits, CacheStats};
pub use division::TaskMode;
pub use producer::{ProduceError, Producer, Stopped};
pub use server::{
    AddTaskError, MissedSplits, Server, ServerConfig, ServerCounters, SessionEnd, SharedSplits,
};
pub use window::TRAINER_ID_BYTES_MAX;
