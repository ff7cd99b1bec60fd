//! `bucket`: batches of elements of similar length.

mod definition;
pub(crate) mod exec;

pub use definition::{Bucketing, Buckets, Padding};
