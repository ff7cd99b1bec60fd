//! `millstream doctor`: checks this machine and a service, and names the cures.
//!
//! - `args`: the flags
//! - `command`: runs all checks at the same time, and prints their findings
//! - `finding`: the result of one check
//! - `bounded`: a call with a deadline
//! - `stores`: the names of the credentials of each object store
//! - `facts`: what the machine and the service answer
//! - `verdicts`: what the facts mean, as pure functions

mod args;
mod bounded;
mod command;
mod facts;
mod finding;
mod stores;
mod verdicts;

pub(crate) use args::DoctorArgs;
pub(crate) use command::run;
