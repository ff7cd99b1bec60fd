//! The numbers that an element carries if its dataset runs on each split alone. The module does not depend on
//! elements.

use super::value::Tensor;

/// The numbers of an element, by which a reader orders elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitNumbers {
    /// The number of the split.
    pub split: u64,
    /// The position among the elements of the split.
    pub position: u64,
    /// The part of its split that the element is.
    pub part: SplitPart,
}

/// The number of bits of the part in the second number of an element.
const PART_BITS: u32 = 2;

impl SplitNumbers {
    /// Returns the two numbers of the additional component: the split, and four times the position plus the
    /// number of the part. Two numbers fit into the tensor itself, without an allocation.
    pub fn to_numbers(self) -> [i64; 2] {
        [
            self.split as i64,
            (self.position << PART_BITS) as i64 | self.part.number(),
        ]
    }

    /// The dimensions of the additional component.
    pub(super) const DIMS: [u64; 1] = [2];

    /// Returns the bytes of the additional component.
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let [split, position] = self.to_numbers();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&split.to_le_bytes());
        bytes[8..].copy_from_slice(&position.to_le_bytes());
        bytes
    }

    /// Returns the additional component.
    pub(super) fn to_tensor(self) -> Tensor {
        Tensor::pair(self.to_numbers())
    }

    /// Returns the numbers that [`SplitNumbers::to_numbers`] wrote; `None` for other numbers.
    pub fn from_numbers(numbers: &[i64]) -> Option<SplitNumbers> {
        let [split, position] = numbers else {
            return None;
        };
        Some(SplitNumbers {
            split: u64::try_from(*split).ok()?,
            position: u64::try_from(position >> PART_BITS).ok()?,
            part: SplitPart::from_number(position & ((1 << PART_BITS) - 1))?,
        })
    }
}

/// The part of its split that an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitPart {
    /// Further elements of the split follow.
    Inner,
    /// The element is the last one of its split.
    Last,
    /// The split has no elements. The components of the dataset are fillers, which no user receives.
    Empty,
    /// The split was given up, because it ends its workers. Elements that arrived before stay, and the
    /// components of the dataset are fillers.
    Skipped,
}

impl SplitPart {
    /// Returns the number of the part in an element.
    fn number(self) -> i64 {
        match self {
            SplitPart::Inner => 0,
            SplitPart::Last => 1,
            SplitPart::Empty => 2,
            SplitPart::Skipped => 3,
        }
    }

    /// Returns the part with this number in an element; `None` if no part has the number.
    fn from_number(number: i64) -> Option<SplitPart> {
        match number {
            0 => Some(SplitPart::Inner),
            1 => Some(SplitPart::Last),
            2 => Some(SplitPart::Empty),
            3 => Some(SplitPart::Skipped),
            _ => None,
        }
    }
}
