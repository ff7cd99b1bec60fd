//! Tests of tasks as a worker serves them.
//!
//! - `buffers`: a buffer and its producer
//! - `groups`: coordinated reads
//! - `trainers`: the cross-trainer cache

mod buffers;
mod groups;
mod trainers;
