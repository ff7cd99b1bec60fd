//! Tests of the control plane over real sockets on loopback.
//!
//! | module | promise |
//! |---|---|
//! | `service` | workers, splits and clients meet, and find each other again |
//! | `coordinated` | consumers that join and leave agree on their rounds |
//! | `refusals` | unauthorised and malformed requests are refused and harm no other process |
//! | `hostile` | a hostile process with a key gets errors, and does not keep other processes from being
//! served |
//! | `flooding` | flow control stops a process that sends more than is read; other processes are served |
//! | `mutated` | randomly changed requests are answered, and leave nothing behind |
//! | `hangs` | a process that hangs, fails or does not read harms no other process |
//! | `lifetimes` | unused entries are removed, and created again on request |
//! | `restarts` | a dispatcher restarts, with or without its memory |
//! | `several` | several dispatchers with one store |
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
mod several;
mod support;
