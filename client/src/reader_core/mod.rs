//! The reader as a pure state machine. The machine's inputs are frames, events, calls and the time; its
//! outputs are messages, elements, reports and notices.
//!
//! - `state`: [`ReaderCore`], the state of a reader
//! - `consume`: the calls of the consumer
//! - `receive`: frames from workers
//! - `events`: events of the iteration; `tasks`: tasks that are added, end, fail or are removed
//! - `links`: links to workers
//! - `grants`: credits and acknowledgements
//! - `turns`, `schedule`: the order of a coordinated read
//! - `troubles`, `trouble`: workers out of reach, and the duration of each outage
//! - `waits`, `looks`: the part of the service that a waiting consumer waits for
//! - `entry`: the state of one task; `outbox`: the state of one worker; `delivery`: elements that arrived
//! - [`credit`]: the number of elements that may be outstanding, and the task that gets the next credit;
//!   `auto`, `recent`: this number under `Auto`
//! - `losses`: lost splits; `remains`: the remaining elements of a removed task; `unreported`: reports that
//!   the dispatcher has not received yet
//! - `ranges`: sets of numbers
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod auto;
mod consume;
pub mod credit;
mod delivery;
mod entry;
mod events;
mod grants;
mod links;
mod looks;
mod losses;
mod outbox;
mod ranges;
mod receive;
mod recent;
mod remains;
mod schedule;
mod state;
mod tasks;
#[cfg(test)]
mod tests;
mod trouble;
mod troubles;
mod turns;
mod unreported;
mod waits;

pub use auto::AUTO_BYTES_MIN;
pub(crate) use delivery::{Delivery, Handing};
pub(crate) use events::Obeyed;
pub(crate) use links::Outgoing;
pub(crate) use state::{ReaderCore, Reading};
