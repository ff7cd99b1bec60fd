//! The admin ports of a service: what operators and their tools see of a dispatcher or a worker.
//!
//! - [`DispatcherSubject`]: a dispatcher as the subject of an [`AdminPort`]
//! - [`WorkerSubject`]: a worker as the subject of an [`AdminPort`]
//! - [`TrainerSubject`]: the loaders of a trainer as the subject of an [`AdminPort`]
//! - [`Verdict`]: whether training waits for data, and why, in one sentence
//! - [`status_json`], [`service_metrics`]: the status for programs
//! - `stage_metrics`: the stages of pipelines as metrics
//! - [`Setting`]: a setting that the port shows
//! - `json`, `iterations`, `rows`: the status as one text, from rows that borrow from it
//! - `history`, `events`, `sums`: the last hour, the latest events, and the sums of running jobs
//! - `hidden`: texts without secrets
//! - `pages`: the dashboard, which is a part of the program

mod dispatcher;
#[cfg(test)]
mod documented;
mod events;
mod hidden;
mod history;
mod iterations;
mod json;
mod metrics;
mod pages;
mod refused;
mod rows;
mod settings;
mod stage_metrics;
mod sums;
#[cfg(test)]
mod tests;
mod trainer;
mod verdict;
mod worker;

pub use dispatcher::{DispatcherFacts, DispatcherSubject};
pub use json::status_json;
pub use metrics::service_metrics;
pub use settings::Setting;
pub use trainer::{LoaderFacts, ObserveLoaders, ObservedLoaders, TrainerFacts, TrainerSubject};
pub use verdict::{Level, Verdict};
pub use worker::{WorkerFacts, WorkerSubject};

pub use millstream_admin::{
    AdminConfig, AdminError, AdminListener, AdminPort, AdminToken, Exposition, Subject, TokenError,
};
