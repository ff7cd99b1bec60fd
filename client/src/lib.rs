//! The reader: yields the elements of an iteration from all its workers, within one limit of outstanding
//! elements.
//!
//! - [`Reader`]: the iterator and stream that users hold
//! - `reader_core`: the reader as a pure state machine
//! - `intake`: the reader core with its lock, shared between the reader's lane thread and its consumer
//! - `cursor`: the consumer's position in the received packs; `waiter`: how the consumer's thread waits
//! - `follow`: carries out the events of the iteration; [`TaskEvent`], [`Report`], [`Feed`]: the channels of
//!   events and reports
//! - `discovery`: receives events from the dispatcher, and sends reports to it
//! - [`Connector`], `driver`, `carrier`: links to workers, their reconnection, and the thread that carries
//!   their frames
//! - `guard`: turns panics into errors of the reader
//! - [`WorkerPlace`]: the location of a worker
//! - [`DataLoss`], [`OnLost`]: lost splits, and the reader's behaviour at the end of the iteration;
//!   [`Notice`]: notices for the user during the iteration
//! - [`ReaderStats`]: measurements; `copies`: counts of copied bytes; `pace`: the measurements that are
//!   reported to the dispatcher; [`WaitClock`]: the waits of a user for whom another thread prefetches
//! - [`ReaderWatch`]: the view of a reader from other threads
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
mod wait_clock;
mod waiter;
mod watch;

pub use connector::{Connected, Connecting, Connector, NotConnected};
pub use cursor::OnHanded;
pub use discovery::discover;
pub use error::ReadError;
pub use event::{TaskEvent, TaskSource};
pub use feed::Feed;
pub use loss::{DataLoss, LostRange, LostSplits, OnLost};
pub use notice::{Notice, Notices, OnNotice};
pub use pace::PaceMeter;
pub use place::WorkerPlace;
pub use reader::{Canceller, Reader, ReaderConfig};
pub use reader_core::AUTO_BYTES_MIN;
pub use reader_core::credit::{self, MaxOutstanding};
pub use report::{Report, SeenSplits};
pub use stats::{Bottleneck, ReaderStats};
pub use wait_clock::WaitClock;
pub use watch::{OnStarted, ReaderView, ReaderWatch};
