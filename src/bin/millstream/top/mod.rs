//! `millstream top`: the state of a service on a terminal, live.
//!
//! - `args`: the flags
//! - `command`: the terminal, its keys, and the requests to the dispatcher
//! - `view`: the table and the rows that the user has chosen
//! - `screen`: the drawing of a status

mod args;
mod command;
mod screen;
mod view;

pub(crate) use args::TopArgs;
pub(crate) use command::run;
