//! The reader as a pure state machine: frames, events, calls and the time go in; messages, elements, reports
//! and notices come out.
//!
//! - `state`: [`ReaderCore`], what it knows
//! - `consume`: the calls of the consumer
//! - `receive`: frames from workers
//! - `events`: events of the iteration; `tasks`: tasks that come, end, fail and are removed
//! - `links`: links to workers
//! - `grants`: credits and acknowledgements
//! - `turns`, `schedule`: the order of a coordinated read
//! - `troubles`, `trouble`: workers that are out of reach, and for how long
//! - `waits`, `looks`: what a consumer that waits is waiting for
//! - `entry`: one task; `outbox`: one worker; `delivery`: elements that arrived
//! - [`credit`]: how many elements may be outstanding, and which task gets the next credit; `auto`, `recent`:
//!   how many when the reader decides
//! - `losses`: lost splits; `remains`: what is left of a removed task; `unreported`: what the dispatcher is
//!   still to be told
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
