//! Millstream feeds trainers: CPU workers preprocess the data, and tensors travel over QUIC, through shared
//! memory, or within the process.
//!
//! This crate composes the control plane, the data plane and the pipeline into a service:
//!
//! - [`Dispatcher`]: the control plane with the pipeline's planner
//! - [`Worker`]: a control agent, the pipeline and the data plane
//! - [`Service`]: a trainer's connection, which registers a [`Dataset`](pipeline::graph::Dataset) and returns
//!   a [`Reader`](client::Reader)
//! - [`admin`]: the HTTP port that shows a process to operators
//! - [`python`]: users' Python code, run by processes that a worker supervises
//! - [`service_reader`] and [`LocalReader`]: a dataset of the elements of a service, with further operations
//!   in the trainer. [`LocalElements`] runs such a dataset on its own thread and prefetches
//!
//! The other crates of the workspace are re-exported under their names.

pub mod admin;
mod connect;
mod dispatcher;
pub mod exactly_once;
pub mod functions;
mod local;
mod local_elements;
mod local_reader;
mod metadata;
mod pack_size;
mod planner;
mod request;
mod serve;
mod serve_shared;
mod service;
pub mod service_reader;
mod service_values;
mod transport_choice;
pub mod worker;

pub use connect::AutoConnector;
pub use dispatcher::{Dispatcher, DispatcherError, SharedStore};
pub use local::LocalWorkers;
pub use local_elements::{LocalElements, LocalRun, StageCosts};
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
pub use millstream_trace as trace;

/// The code example of the page, as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct RustPage;
