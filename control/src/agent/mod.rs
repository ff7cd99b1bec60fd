//! The worker's side of the control plane: registered, told what to run, given splits.
//!
//! | file | what it owns |
//! |---|---|
//! | `running` | the agent: its incarnations, its lease, its tasks |
//! | `incarnation` | one registration, from the first welcome to the end of the lease |
//! | `feed` | splits for one task, from a thread that may block |
//! | `config` | what a worker says of itself |

mod config;
mod feed;
mod incarnation;
mod running;

pub use config::AgentConfig;
pub use feed::{FeedError, SplitFeed};
pub use running::{Agent, AgentEvent, AgentEvents};
