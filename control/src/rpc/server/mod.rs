//! The shell around the dispatcher: sockets outside, the pure machine inside, the store between.
//!
//! | file | what it owns |
//! |---|---|
//! | `audit` | who asked for what, line by line |
//! | `event_loop` | the one task that owns the machine: events in a line, group commit, actions |
//! | `clock` | the time in which the loop could run |
//! | `listings` | sources being listed, off the loop |
//! | `backlog` | what the store has no room for |
//! | `probes` | whether anything listens at workers' ports |
//! | `connection` | one process: its hello, its heartbeats, its requests, what is pushed to it |
//! | `owners` | which process a session belongs to |
//! | `rate` | how many requests a process may make in a second |
//! | `refusals` | how many connections and requests were refused |
//! | `running` | starting and stopping |

mod audit;
mod backlog;
mod clock;
mod connection;
mod event_loop;
mod listings;
mod owners;
mod probes;
mod rate;
mod refusals;
mod running;
#[cfg(test)]
mod tests;

pub use audit::AuditLog;
pub use running::{Server, ServerConfig, ServerStopper, StartError};
