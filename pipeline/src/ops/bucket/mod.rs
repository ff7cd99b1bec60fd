//! The operation `bucket_by_sequence_length`, which batches elements of similar length.

mod definition;
pub(crate) mod exec;

pub use definition::{Bucketing, Buckets, Padding};
