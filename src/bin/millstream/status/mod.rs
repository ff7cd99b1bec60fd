//! `millstream status`: shows the state of a service, to people and to programs.
//!
//! - `args`: the flags
//! - `tables`: tables for people
//!
//! The forms for programs are those of the admin port.

mod args;
mod command;
mod tables;

pub(crate) use args::StatusArgs;
pub(crate) use command::run;
