//! The serving side: tasks produce into buffers, sessions carry from there to clients.
//!
//! - [`buffer`]: the elements of one task that wait for a credit
//! - [`producer`]: the end of it that a pipeline writes to
//! - `mode`: the ways of dividing them among clients; `place`: the place that a client asks for
//! - `division`: which client gets which of them; `groups`: in coordinated reads; `queue`: packs whose
//!   elements wait
//! - `pack_limits`: the limits of packs
//! - [`ArenaConfig`]: what they may share with readers of the host; `alloc`: where a task's elements are
//!   written
//! - `window`: in a cross-trainer cache; `cache`: what all of those may keep
//! - `owed`: who took which elements and has not acknowledged them
//! - `turns`: whose turn it is where several clients wait for elements
//! - `task`: a task and its subscriptions
//! - [`server`]: all tasks of a worker; `server_state`: what its sessions share; `server_config`: its limits
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
pub use buffer::{BufferLimits, Mark, Take};
pub use cache::{CacheLimits, CacheStats};
pub use mode::TaskMode;
pub use producer::{ProduceError, Producer, Stopped};
pub use server::{AddTaskError, MissedSplits, Server, SessionEnd, SharedSplits};
pub use server_config::{OnTaken, ServerConfig};
pub use server_state::ServerCounters;
pub use window::TRAINER_ID_BYTES_MAX;
