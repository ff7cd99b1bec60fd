//! Tests of memory that processes share.
//!
//! - `arenas`: an arena against a naive model, and what it keeps and gives back
//! - `hostile_client`, `hostile_worker`: an honest end against one that does anything; `villain` is what both
//!   are made of
//! - `links`: what the two ends of a link promise beyond what every transport does
//! - `loom_models`: the rings, in every order of steps that the memory model allows
//! - `processes`: a second process that maps it, and one that is lied to
//! - `rings`: the rings against naive models, and with a peer that writes anywhere
//! - `stress`: the rings between threads that run at once

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
