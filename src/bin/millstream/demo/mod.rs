//! `millstream demo`: real pictures through a service of processes of its own, counted.
//!
//! - `run`: the command, from the data to the verdict
//! - `cluster`: the dispatcher and the workers, as child processes
//! - `album`: the photographs that the command brings with it
//! - `census`: which pictures there are and which were seen
//! - `progress`: the bar

mod album;
mod census;
mod cluster;
mod progress;
mod run;

pub(crate) use run::run;
