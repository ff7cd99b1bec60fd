//! Tests of tasks as a worker serves them.
//!
//! - `arenas`: which memory elements are written to
//! - `buffers`: a buffer and its producer
//! - `groups`: coordinated reads
//! - `trainers`: the cross-trainer cache

#[cfg(target_os = "linux")]
mod arenas;
mod buffers;
mod groups;
mod trainers;
