//! The item that is passed between operations: the value of an element and its origin.

use super::error::Origin;
use super::split_numbers::SplitNumbers;
use super::token::Marks;
use super::value::{Tensor, Value};

/// An element on its way between two operations.
#[derive(Debug, Clone)]
pub struct Item {
    /// The components of the element.
    pub value: Value,
    /// The marks of the splits that the element stands for. The list is empty if no source is read in splits.
    pub marks: Marks,
    /// The number that identifies the element in the dataset on every worker. The element's position in its
    /// source is mixed with the pass of every `repeat` and the index within every expansion. Random draws are
    /// functions of the number.
    pub position: u64,
    /// The record from which the element was made, if there is one.
    pub origin: Option<Origin>,
    /// The numbers of the element, if the dataset runs on each split alone. They stand before the components,
    /// as [`SplitNumbers`] describes.
    pub numbers: Option<SplitNumbers>,
}

impl Item {
    /// Returns an element without marks and without an origin.
    pub fn new(value: Value, position: u64) -> Item {
        Item::marked(value, Marks::new(), position)
    }

    /// Returns an element without an origin.
    pub(crate) fn marked(value: Value, marks: Marks, position: u64) -> Item {
        Item {
            value,
            marks,
            position,
            origin: None,
            numbers: None,
        }
    }

    /// Returns the number of components, including the one of the numbers.
    pub(crate) fn component_count(&self) -> usize {
        self.value.len() + usize::from(self.numbers.is_some())
    }

    /// Moves the numbers to the components, for a caller that looks at the components.
    pub(crate) fn numbers_as_component(&mut self) {
        if let Some(numbers) = self.numbers.take() {
            self.value.insert(0, numbers.to_tensor());
        }
    }

    /// Returns the approximate number of bytes that the element keeps alive.
    pub fn held_bytes(&self) -> usize {
        size_of::<Item>() + self.value.iter().map(Tensor::held_bytes).sum::<usize>()
    }
}
