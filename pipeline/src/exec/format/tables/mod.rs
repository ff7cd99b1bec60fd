//! Readers of tables of columns: Parquet and Arrow IPC.
//!
//! - `shape`: the components that a column becomes, by its type;
//! - `convert`: the columns of a batch of rows as tensors;
//! - `rows`: the reader of both formats, which reads batch after batch;
//! - `parquet`, `arrow`: the batches of a file;
//! - `thrift`, `gzip`: checks of the sizes that a Parquet file states, before its decoder relies on them.

mod arrow;
mod convert;
mod gzip;
mod messages;
mod parquet;
mod rows;
mod shape;
mod thrift;

pub(crate) use arrow::Arrow;
pub(crate) use parquet::Parquet;
pub(crate) use rows::{Tables, describe};
