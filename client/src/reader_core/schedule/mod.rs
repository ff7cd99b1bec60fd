//! The order of turns in coordinated reads, which is the same for every consumer.
//!
//! - `order`: rounds, tasks and turns
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod order;
#[cfg(test)]
mod tests;

pub(crate) use order::{OutOfStep, Schedule};
