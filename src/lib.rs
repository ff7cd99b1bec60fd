//! Millstream feeds trainers: preprocessing on a pool of CPU workers, tensors over QUIC or within the
//! process.
//!
//! This crate composes the planes into a service:
//!
//! - [`Dispatcher`] = the control plane and the pipeline's planner
//! - [`Worker`] = a control agent, the pipeline and the data plane
//! - [`Service`] = what a trainer holds: register a [`Dataset`](pipeline::graph::Dataset), get a
//!   [`Reader`](client::Reader)
//! - [`python`] = users' code of Python, run by processes that a worker supervises
//! - [`service_reader`] and [`LocalReader`] = a dataset of what a service yields, which goes on in the
//!   trainer; [`LocalElements`] is one that runs ahead on a thread of its own
//!
//! The parts are re-exported under the names of their crates.

mod connect;
mod dispatcher;
pub mod functions;
mod local;
mod local_elements;
mod local_reader;
mod metadata;
mod planner;
mod request;
mod serve;
mod serve_shared;
mod service;
pub mod service_reader;
mod transport_choice;
pub mod worker;

pub use connect::AutoConnector;
pub use dispatcher::{Dispatcher, DispatcherError};
pub use local::LocalWorkers;
pub use local_elements::{LocalElements, LocalRun};
pub use local_reader::{LocalReader, LocalReaderError};
pub use metadata::DatasetMetadata;
pub use planner::GraphPlanner;
pub use request::ReadRequest;
pub use service::{GiveUp, Service, ServiceConfig, ServiceError};
pub use worker::{Worker, WorkerConfig, WorkerError, WorkerStopper};

pub use millstream_client as client;
pub use millstream_control as control;
pub use millstream_dataplane as dataplane;
pub use millstream_element as element;
pub use millstream_link as link;
pub use millstream_pipeline as pipeline;
pub use millstream_pyworker as python;

/// The example compiles.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct RustPage;
