//! `millstream status`: shows the state of a service, to people and to programs.
//!
//! - `tables`: tables for people
//! - `json`: the whole status, for programs
//! - `metrics`: gauges in the Prometheus text format

mod command;
mod json;
mod metrics;
mod tables;

pub(crate) use command::run;
