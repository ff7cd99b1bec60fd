//! The operation `padded_batch`, which pads consecutive elements to one shape and stacks them.

mod definition;
pub(crate) mod exec;

pub use definition::PaddedBatch;
pub(crate) use definition::padded_shapes;
