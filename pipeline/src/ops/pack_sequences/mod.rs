//! `pack_sequences`: sequences of tokens one after the other, in rows of one length.

mod definition;
pub(crate) mod exec;

pub use definition::{Cut, PackSequences};
