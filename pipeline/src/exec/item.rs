//! The item that travels between operations: an element's value and its origin.

use super::error::Origin;
use super::token::Marks;
use super::value::{Tensor, Value};

/// One element between two operations.
#[derive(Debug, Clone)]
pub struct Item {
    /// The components.
    pub value: Value,
    /// The splits it stands for; empty when nothing is split.
    pub marks: Marks,
    /// Identifies the element in the dataset, whichever worker produces it: its position in the source, mixed
    /// with the pass of every `repeat` and the index within every expansion above it. Randomness is a
    /// function of it.
    pub position: u64,
    /// The record it was made of, where there is one.
    pub origin: Option<Origin>,
}

impl Item {
    /// An element that comes from no split and no record.
    pub fn new(value: Value, position: u64) -> Item {
        Item {
            value,
            marks: Marks::new(),
            position,
            origin: None,
        }
    }

    /// The memory it keeps alive, roughly.
    pub fn held_bytes(&self) -> usize {
        size_of::<Item>() + self.value.iter().map(Tensor::held_bytes).sum::<usize>()
    }
}
