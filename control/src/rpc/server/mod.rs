//! The shell around the dispatcher: sockets outside, the pure state machine inside, and the store between
//! them.
//!
//! | file | contents |
//! |---|---|
//! | `audit` | the audit log: one line for each connection and audited request |
//! | `event_loop` | the one task that owns the machine: inputs in order, group commit, actions |
//! | `clock` | the time in which the loop could run |
//! | `listings` | the listings of sources, outside of the loop |
//! | `backlog` | the decisions for which the store has no space |
//! | `probes` | the checks for a listening process at workers' ports |
//! | `connection` | one process: its hello, its heartbeats, its requests, its pushes |
//! | `observer` | observing the dispatcher from its own process |
//! | `owners` | the process to which each session belongs |
//! | `rate` | the limit of requests that a process may make in a second |
//! | `refusals` | the counts of refused connections and requests |
//! | `running` | starting and stopping the server |
//! | `standby` | a dispatcher that does not lead |
//! | `traced` | the spans of answers to requests for splits |

mod about;
mod audit;
mod backlog;
mod clock;
mod connection;
mod event_loop;
mod listings;
mod observer;
mod owners;
mod probes;
mod rate;
mod refusals;
mod running;
mod standby;
#[cfg(test)]
mod tests;
mod traced;

pub use audit::AuditLog;
pub use event_loop::Observed;
pub use observer::ServerObserver;
pub use running::{Server, ServerConfig, ServerStopper, StartError};
