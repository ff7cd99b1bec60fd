//! The reader: elements of an iteration from all its workers, under one bound.
//!
//! - [`Reader`]: the iterator and stream that users hold
//! - `reader_core`: the reader as a pure state machine
//! - `intake`: that machine behind its lock, shared between the reader's lane and its consumer
//! - `cursor`: the consumer's place in what arrived; `waiter`: how its thread waits for more
//! - `follow`: carries out the events of the iteration; [`TaskEvent`], [`Report`], [`Feed`]: how they come in
//!   and reports go out
//! - `discovery`: those events from the dispatcher, and the reports to it
//! - [`Connector`], `driver`, `carrier`: links to workers, how they are kept, and who carries frames over
//!   them
//! - `guard`: what becomes of panics
//! - [`WorkerPlace`]: where a worker is
//! - [`DataLoss`], [`OnLost`]: lost splits, and what becomes of the end; [`Notice`]: what users hear of
//!   meanwhile
//! - [`ReaderStats`]: what was measured; `copies`: what was copied; `pace`: what of it the dispatcher is told
//! - `alloc`: the memory of decompressed elements

mod alloc;
mod carrier;
mod connector;
mod copies;
mod cursor;
mod discovery;
mod driver;
mod error;
mod event;
mod feed;
mod follow;
mod guard;
mod intake;
mod loss;
mod notice;
mod pace;
mod place;
mod reader;
mod reader_core;
mod report;
#[cfg(test)]
mod simulation;
mod stats;
mod waiter;

pub use connector::{Connected, Connecting, Connector, NotConnected};
pub use cursor::OnHanded;
pub use discovery::discover;
pub use error::ReadError;
pub use event::{TaskEvent, TaskSource};
pub use feed::Feed;
pub use loss::{DataLoss, LostRange, LostSplits, OnLost};
pub use notice::{Notice, OnNotice};
pub use pace::PaceMeter;
pub use place::WorkerPlace;
pub use reader::{Canceller, Reader, ReaderConfig};
pub use reader_core::AUTO_BYTES_MIN;
pub use reader_core::credit::{self, MaxOutstanding};
pub use report::{Report, SeenSplits};
pub use stats::{Bottleneck, ReaderStats};
