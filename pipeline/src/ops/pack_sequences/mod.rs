//! The operation `pack_sequences`, which joins sequences of tokens and cuts the result into rows of one
//! length.

mod definition;
pub(crate) mod exec;

pub use definition::{Cut, PackSequences};
