//! Tests of tasks as a worker serves them.
//!
//! - `arenas` tests which memory elements are written to.
//! - `buffers` tests a buffer and its producer.
//! - `groups` tests coordinated reads.
//! - `trainers` tests the cross-trainer cache.

#[cfg(target_os = "linux")]
mod arenas;
mod buffers;
mod groups;
mod trainers;
