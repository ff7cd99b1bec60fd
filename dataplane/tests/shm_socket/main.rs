//! Tests the socket of a link through shared memory, over real sockets and against peers that violate the
//! protocol.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

mod channel;
mod directory;
mod greeting;
mod strangers;
mod support;
