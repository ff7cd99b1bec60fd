//! The extension module of the `millstream` wheel: translation of the root library's types, and nothing else.
//!
//! - `graph`, `expr`, `spec`: datasets and what is known of them
//! - `code`: functions and iterables of Python in pipelines
//! - `servers`, `service`, `key`: a dispatcher, workers, and what a trainer holds
//! - `elements`, `assembly`, `array`, `npy`, `dlpack`: elements become Python objects that share their memory
//! - `failure`: errors become exceptions; `wait`: what blocks hears Ctrl-C; `notices`: what is said
//!   meanwhile; `fork`: what a forked child must not touch

mod array;
mod assembly;
mod code;
mod dlpack;
mod elements;
mod expr;
mod failure;
mod fork;
mod graph;
mod key;
mod notices;
mod npy;
mod servers;
mod service;
mod spec;
mod wait;

/// The module as Python imports it; the package around it is what users see.
#[pyo3::pymodule(gil_used = false)]
mod _millstream {
    #[pymodule_export]
    use super::elements::Elements;
    #[pymodule_export]
    use super::expr::Expr;
    #[pymodule_export]
    use super::fork::generation;
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    use super::key::{key_path, version};
    #[pymodule_export]
    use super::servers::{Dispatcher, Worker};
    #[pymodule_export]
    use super::service::Service;
}
