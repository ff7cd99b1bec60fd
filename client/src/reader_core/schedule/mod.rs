//! Coordinated reads: whose turn it is, the same for every consumer.
//!
//! - `order`: rounds, tasks, turns
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod order;
#[cfg(test)]
mod tests;

pub(crate) use order::{OutOfStep, Schedule};
