//! `repeat`: the input several times over.

mod definition;
pub(crate) mod exec;

pub use definition::Repeat;
