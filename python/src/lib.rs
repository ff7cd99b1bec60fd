//! The extension module of the `millstream` wheel, which translates the root library's types for Python.
//!
//! - `graph`, `expr`, `spec`: datasets, expressions and specs
//! - `code`: users' Python functions and iterables in pipelines; `held`: code that this process runs as it is
//! - `admin`: admin ports of servers and trainers
//! - `servers`, `service`, `key`: dispatchers, workers, and a trainer's connection; `exactly_once`: the
//!   terms, positions and records of exactly-once jobs
//! - `elements`, `assembly`, `array`, `npy`, `dlpack`: conversion of elements to Python objects that share
//!   the memory
//! - `probe`: measurements for other threads; `metrics`: the port that shows the loaders of the process;
//!   `traces`: the export of spans
//! - `failure`: conversion of errors to exceptions; `wait`: blocking calls that react to Ctrl-C; `notices`:
//!   notices for the user; `fork`: guards for forked children

mod admin;
mod array;
mod assembly;
mod code;
mod dlpack;
mod elements;
mod exactly_once;
mod expr;
mod failure;
mod fork;
mod graph;
mod held;
mod key;
mod metrics;
mod notices;
mod npy;
mod probe;
mod servers;
mod service;
mod spec;
mod traces;
mod wait;

/// The module as Python imports it. Users see the package `millstream` around this module.
#[pyo3::pymodule(gil_used = false)]
mod _millstream {
    #[pymodule_export]
    use super::elements::Elements;
    #[pymodule_export]
    use super::exactly_once::{EpochLineage, element_after, joined_places, place_after, steps_left};
    #[pymodule_export]
    use super::expr::Expr;
    #[pymodule_export]
    use super::fork::generation;
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    use super::key::{key_path, role_key, version};
    #[pymodule_export]
    use super::metrics::{MetricsPort, without_secrets};
    #[pymodule_export]
    use super::probe::Measurements;
    #[pymodule_export]
    use super::servers::{Dispatcher, Worker};
    #[pymodule_export]
    use super::service::Service;
    #[pymodule_export]
    use super::traces::{start_traces, stop_traces};
}
