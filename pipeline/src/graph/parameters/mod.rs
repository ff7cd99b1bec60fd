//! The parameters of operations, as CBOR maps with numbered fields, by what the operations do. Families of operations that
//! share a file of their own, such as [`Format`](super::Format), are beside this folder.
//!
//! A field's number is its wire identity: numbers are never reused, new fields are optional.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod call;
mod on_error;
mod several;
mod source;
mod stream;

pub use call::{Cycle, FlatMap, RegisteredFlatMap, Schedule};
pub use on_error::OnError;
pub use several::{Choose, Sample, Zip};
pub use source::{
    Counter, Files, Random, Range, RegisteredSource, ServiceReader, SourceDeclaration, TensorSlices, Tensors,
};
pub use stream::{Batch, Count, Enumerate, Prefetch, Repeat, Shard, Shuffle};
