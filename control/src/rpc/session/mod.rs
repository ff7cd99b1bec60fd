//! A process' relation with the dispatcher: one session over any number of connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `calls` | requests: numbered, repeated until answered |
//! | `numbers` | which numbers are open: pure |
//! | `tries` | how long the dispatcher has been looked for: pure |
//! | `paces` | what is said next of tasks and clients: pure |
//! | `driver` | connecting, saying that we live, hearing pushes, connecting again |
//! | `state` | what connection and callers share |
//! | `contact` | whether the dispatcher is in reach |
//! | `config` | patience |

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
