//! A process' relation with the dispatcher: one session over any number of connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `calls` | requests: numbered, repeated until answered |
//! | `numbers` | which numbers are open: pure |
//! | `paces` | what is said next of tasks and clients: pure |
//! | `driver` | connecting, saying that we live, hearing pushes, connecting again |
//! | `config` | patience |

mod calls;
mod config;
mod driver;
mod numbers;
mod paces;
#[cfg(test)]
mod tests;

pub(crate) use calls::Session;
pub use config::SessionConfig;
pub(crate) use driver::SessionEvent;
pub use numbers::Numbers;
