//! The socket of a link through shared memory, over real sockets and against peers that do not keep to the
//! protocol.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod channel;
mod directory;
mod greeting;
mod strangers;
mod support;
