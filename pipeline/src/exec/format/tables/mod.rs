//! Tables of columns: Parquet and Arrow IPC.
//!
//! - `shape`: what becomes of a column, by its type;
//! - `convert`: the columns of a batch of rows as tensors;
//! - `rows`: the reader of both formats, which goes from batch to batch;
//! - `parquet`, `arrow`: the batches of a file;
//! - `thrift`, `gzip`: what a Parquet file says of itself, held against limits before its decoder believes
//!   it.

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
