//! The operation `source`, a source that is written in Rust and registered by name.

mod definition;
pub(crate) mod exec;

pub use definition::{RegisteredSource, SourceDeclaration};
