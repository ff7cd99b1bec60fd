//! The meaning of the facts: pure functions from facts to findings, which the tests call directly.
//!
//! - `host`: shared memory, memory, and the limit on open files
//! - `identity`: the key
//! - `members`: the dispatchers of a service that has several
//! - `network`: UDP, its buffers, and the MTU
//! - `python`: the interpreter of users' code
//! - `service`: the dispatcher and the workers
//! - `storage`: the credentials of object stores
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(target_os = "linux")]
pub(super) mod host;
pub(super) mod identity;
pub(super) mod members;
pub(super) mod network;
#[cfg(target_os = "linux")]
pub(super) mod python;
pub(super) mod service;
pub(super) mod storage;
