//! A process's relation with the dispatcher: one session over any number of connections.
//!
//! | file | contents |
//! |---|---|
//! | `calls` | requests: numbered, and repeated until answered |
//! | `numbers` | the open request numbers: pure |
//! | `tries` | the count and the duration of attempts to reach the dispatcher: pure |
//! | `paces` | the measurements for the next heartbeats: pure |
//! | `driver` | connecting, heartbeats, receiving pushes, reconnecting |
//! | `state` | the state that the connection and its callers share |
//! | `contact` | whether the dispatcher is reachable |
//! | `config` | timeouts |

mod calls;
mod config;
mod contact;
mod driver;
mod numbers;
mod paces;
mod state;
#[cfg(test)]
mod tests;
mod tries;

pub(crate) use calls::Session;
pub use config::SessionConfig;
pub use contact::Contact;
pub use numbers::Numbers;
pub(crate) use state::SessionEvent;
