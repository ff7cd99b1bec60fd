//! The operation `assert_cardinality`, which fails unless its input has the stated number of elements.

mod definition;
pub(crate) mod exec;

pub use definition::AssertCardinality;
