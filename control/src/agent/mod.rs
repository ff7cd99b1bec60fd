//! The worker's side of the control plane: its registration, its tasks and its splits.
//!
//! | file | contents |
//! |---|---|
//! | `running` | the agent: its incarnations, its lease, its tasks |
//! | `incarnation` | one registration, from the first welcome to the end of the lease |
//! | `shared` | the state that incarnations and callers share |
//! | `event` | the orders to a worker |
//! | `feed` | the splits for one task, for a thread that may block |
//! | `requests` | the requests of a feed, which follow each other |
//! | `books` | the held splits of a task, and the time of the next request: pure |
//! | `demand` | the number of splits that a task requests: pure |
//! | `produced` | the reports of produced splits, for tasks whose readers confirm none |
//! | `config` | the registration of a worker, and its timeouts |

mod books;
mod config;
mod demand;
mod event;
mod feed;
mod incarnation;
#[cfg(test)]
mod pacing;
mod produced;
mod requests;
mod running;
mod shared;

pub use books::{FeedBatch, FeedBooks, FeedRun, FeedStep};
pub use config::AgentConfig;
pub use demand::{FeedDemand, FeedGoal};
pub use event::AgentEvent;
pub use feed::SplitFeed;
pub use produced::ProducedSplits;
pub use requests::FeedError;
pub use running::{Agent, AgentEvents};
