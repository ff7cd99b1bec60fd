//! The operation `reduce`, which folds all elements into a state and yields the final state.

mod definition;
pub(crate) mod exec;

pub use definition::Reducing;
