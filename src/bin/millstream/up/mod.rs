//! `millstream up`: a service on this machine. The command starts a dispatcher and workers as child
//! processes, and restarts them when they die.
//!
//! - [`args`]: the flags
//! - [`command`]: the command
//! - [`supervisor`]: the processes, and the steps of their supervision
//! - [`supervised`]: one of these processes
//! - [`restarts`]: whether and when a dead process starts again

mod args;
mod command;
mod restarts;
mod supervised;
mod supervisor;

pub(crate) use args::UpArgs;
pub(crate) use command::run;
