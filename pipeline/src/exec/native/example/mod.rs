//! The calls of `parse_example` and `parse_sequence_example`.
//!
//! - [`wire`] reads protocol messages field by field, strictly and without copying;
//! - [`message`] finds the features in an example, and the values in a feature;
//! - `column` collects the values of one feature, and converts them to tensors;
//! - [`call`] parses the examples of every element.

mod call;
mod column;
mod message;
mod wire;

pub(crate) use call::{ExampleCall, SequenceExampleCall};
