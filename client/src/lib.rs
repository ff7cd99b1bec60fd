//! The reader: elements of an iteration from all its workers, under one bound.
//!
//! - [`Reader`]: the iterator and stream that users hold
//! - [`MaxOutstanding`] and `credit`: how many elements may be outstanding, and which task gets the next credit
//! - `auto`: how much that comes to when the reader sizes it
//! - `intake`, `state`: what arrived and is owed, shared between the reader's lane and its consumer
//! - `entry`: one task within it
//! - `remains`, `unreported`: what is left of a removed task, and what the dispatcher is still to be told
//! - [`DataLoss`], [`OnLost`]: splits that were lost, and what becomes of the end; [`Notice`]: what users hear of meanwhile
//! - `schedule`, `turns`: the order in which the consumers of a coordinated read hand over
//! - `cursor`: the consumer's place in what arrived; `waiting`: how its thread waits for more
//! - `idle`: no worker to read from; `reach`: workers out of reach, and when that ends reading
//! - `driver`, `carrier`, `follow`: the links to workers, who carries frames over them, and the iteration's events; `guard`: what becomes of their panics
//! - [`WorkerPlace`]: where a worker is
//! - `discovery`: those events from the dispatcher, and reports to it
//! - [`ReaderStats`]: what was measured; `verdict`: what a consumer that waits is waiting for; `copies`: what was copied; `pace`: what of it the dispatcher is told

mod alloc;
mod auto;
mod carrier;
mod copies;
pub mod credit;
mod cursor;
mod discovery;
mod driver;
mod entry;
mod error;
mod follow;
mod guard;
mod idle;
mod intake;
mod loss;
mod notice;
mod pace;
mod place;
mod ranges;
mod reach;
mod reader;
mod recent;
mod remains;
mod schedule;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod state;
mod stats;
mod turns;
mod unreported;
mod verdict;
mod waiting;

pub use auto::AUTO_BYTES_MIN;
pub use credit::MaxOutstanding;
pub use cursor::OnHanded;
pub use discovery::discover;
pub use driver::{Connected, Connecting, Connector, NotConnected};
pub use error::ReadError;
pub use follow::{Feed, LostSplits, Report, TaskEvent};
pub use intake::{SeenSplits, TaskSource};
pub use loss::{DataLoss, LostRange, OnLost};
pub use notice::{Notice, OnNotice};
pub use pace::PaceMeter;
pub use place::WorkerPlace;
pub use reader::{Canceller, Reader, ReaderConfig};
pub use stats::{Bottleneck, ReaderStats};
