//! Objects of stores and files of servers, over the network.
//!
//! - `stores`: which clients there are; `redirects`: where a server may send them on to; `runtime`: the
//!   thread that they work on;
//! - `shared`: what open objects share; `open`: how one is opened;
//! - `fetch`: requests, bounded; `failure`: what they fail with, in words;
//! - `file`: an open object, `blocks` of it, how far `ahead` they are asked for, and the `memory` they share;
//! - `spool`: files of servers that answer no ranges; `listing`: patterns.

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
