//! A process's relation with the dispatcher: one session over any number of connections.
//!
//! | file | contents |
//! |---|---|
//! | `calls` | requests: numbered, and repeated until answered |
//! | `numbers` | the open request numbers: pure |
//! | `tries` | the count and the duration of attempts to reach the dispatcher: pure |
//! | `paces` | the measurements for the next heartbeats: pure |
//! | `driver` | heartbeats, receiving pushes, reconnecting |
//! | `attempt` | one attempt to reach the dispatcher |
//! | `search` | the search for the leader among several dispatchers |
//! | `state` | the state that the connection and its callers share |
//! | `contact` | whether the dispatcher is reachable |
//! | `config` | timeouts |

mod attempt;
mod calls;
mod config;
mod contact;
mod driver;
mod numbers;
mod paces;
mod search;
mod state;
#[cfg(test)]
mod tests;
mod tries;

pub use attempt::NOT_LEADING;
pub(crate) use calls::Session;
pub use config::SessionConfig;
pub use contact::Contact;
pub use numbers::Numbers;
pub(crate) use state::SessionEvent;
