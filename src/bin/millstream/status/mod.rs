//! `millstream status`: what a service is doing, for people and for programs.
//!
//! - `tables`: for people
//! - `json`: everything, for programs
//! - `metrics`: gauges, in the text format that Prometheus reads

mod command;
mod json;
mod metrics;
mod tables;

pub(crate) use command::run;
