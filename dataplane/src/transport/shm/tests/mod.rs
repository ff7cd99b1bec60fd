//! Tests of memory that two processes share.
//!
//! - `arenas` compares an arena with a naive model, and checks which memory an arena keeps and returns.
//! - `hostile_client` and `hostile_worker` run an honest end against an arbitrary peer; `villain` has the
//!   parts of both peers.
//! - `links` checks promises of a link beyond the promises of every transport.
//! - `loom_models` runs the rings in every order of steps that the memory model allows.
//! - `processes` runs a second process that maps the memory, or that receives false announcements.
//! - `rings` compares the rings with naive models, also with a peer that writes anywhere.
//! - `stress` runs the rings between concurrent threads.

mod arenas;
mod hostile_client;
mod hostile_worker;
mod links;
#[cfg(feature = "loom")]
mod loom_models;
mod processes;
mod rings;
mod stress;
mod villain;
