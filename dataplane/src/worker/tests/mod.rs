//! Tests of tasks as a worker serves them.
//!
//! - `buffers`: a buffer and its producer
//! - `trainers`: the cross-trainer cache

mod buffers;
mod trainers;

pub(super) use buffers::{layout, pair_in, sequences, wait_until_it_waits, write};
