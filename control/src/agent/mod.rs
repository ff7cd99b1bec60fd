//! The worker's side of the control plane: registered, told what to run, given splits.
//!
//! | file | what it owns |
//! |---|---|
//! | `running` | the agent: its incarnations, its lease, its tasks |
//! | `incarnation` | one registration, from the first welcome to the end of the lease |
//! | `shared` | what incarnations and callers share |
//! | `event` | what a worker must do |
//! | `feed` | splits for one task, from a thread that may block |
//! | `books` | what of them is here, and when to ask for more: pure |
//! | `demand` | how many splits a task asks for: pure |
//! | `produced` | which of them have been produced, where no reader is waited for |
//! | `config` | what a worker says of itself |

mod books;
mod config;
mod demand;
mod event;
mod feed;
mod incarnation;
#[cfg(test)]
mod pacing;
mod produced;
mod running;
mod shared;

pub use books::{FeedBatch, FeedBooks, FeedRun, FeedStep};
pub use config::AgentConfig;
pub use demand::FeedDemand;
pub use event::AgentEvent;
pub use feed::{FeedError, SplitFeed};
pub use produced::ProducedSplits;
pub use running::{Agent, AgentEvents};
