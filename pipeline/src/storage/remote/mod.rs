//! Access to objects of stores and files of servers, over the network.
//!
//! - `stores`: the clients of stores; `redirects`: the rules for redirects of servers; `runtime`: the thread
//!   on which requests run.
//! - `shared`: the state that open objects share; `open`: the opening of an object.
//! - `fetch`: requests with limits on time and attempts; `failure`: the messages of their errors.
//! - `file`: an open object; `blocks`: its blocks; `ahead`: the number of blocks to prefetch; `memory`: the
//!   limit on their memory.
//! - `spool`: files of servers that do not support ranges; `listing`: patterns.

mod ahead;
mod blocks;
mod failure;
mod fetch;
mod file;
mod listing;
mod memory;
mod open;
mod redirects;
mod runtime;
mod shared;
mod spool;
mod stores;

pub(super) use file::RemoteFile;
pub(super) use open::Opened;
pub(super) use shared::Remote;
