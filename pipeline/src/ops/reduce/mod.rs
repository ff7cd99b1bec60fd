//! `reduce`: the state that a function leaves after all elements.

mod definition;
pub(crate) mod exec;

pub use definition::Reducing;
