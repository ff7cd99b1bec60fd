//! The control plane over real sockets on loopback.
//!
//! | module | promise |
//! |---|---|
//! | `service` | workers, splits and clients meet, and find each other again |
//! | `coordinated` | consumers that come and go agree on their rounds |
//! | `refusals` | who may not, or speaks nonsense, is refused and harms nobody |
//! | `hostile` | who has a key and means harm is told what was wrong, and keeps nobody from being served |
//! | `flooding` | who sends more than is read is stopped by flow control, and keeps nobody from being served |
//! | `mutated` | requests that are changed at random are answered, crash nothing and leave nothing |
//! | `hangs` | who hangs, fails or does not listen harms nobody else |
//! | `lifetimes` | unused entries go, and are created again on request |
//! | `restarts` | a dispatcher that comes back, with or without its memory |
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod coordinated;
mod flooding;
mod hangs;
mod hostile;
mod lifetimes;
mod mutated;
mod refusals;
mod restarts;
mod service;
mod support;
