//! `assert_cardinality`: fails unless there are so many elements.

mod definition;
pub(crate) mod exec;

pub use definition::AssertCardinality;
