//! `millstream demo`: reads real pictures through a service of child processes, and counts the pictures.
//!
//! - `run`: the command, from the data to the verdict
//! - `cluster`: the dispatcher and the workers, as child processes
//! - `album`: the photographs that are built into the command
//! - `census`: a count of the pictures that exist and of the pictures that were read
//! - `progress`: the progress bar

mod album;
mod census;
mod cluster;
mod progress;
mod run;

pub(crate) use run::run;
