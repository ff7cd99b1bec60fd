//! The execution of a dataset on each split alone, for exactly-once jobs.
//!
//! The elements of a split are then a function of dataset, seed, epoch and split. Another task that reads the
//! split yields the same elements in the same order. Every element has an additional component with
//! numbers, by which a reader orders elements and recognises repeated ones. This module knows neither readers
//! nor the process that chooses the splits.

use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{Dtype, ElementSpec, TensorSpec};

use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::item::Item;
use super::iterate::{Further, Input, Iterate};
use super::program::Program;
use super::splits::{Feed, Split, SplitError, SplitSource};
use super::state::{StateError, StateReader, StateWriter};
use super::token::{Mark, Marks, SplitToken};
use super::value::{Tensor, Value, fixed_bytes};
use crate::graph::spec::side_by_side;
use crate::graph::{AnalysisError, SplitCounts};

/// The name of the executor's part in errors.
const OP: &str = "by_split";

/// The number of components before the components of the dataset: the one with the [`SplitNumbers`].
pub const COMPONENTS_ADDED: usize = 1;

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
    /// number of the part. Two numbers need no memory apart from the tensor.
    pub fn to_numbers(self) -> [i64; 2] {
        [
            self.split as i64,
            (self.position << PART_BITS) as i64 | self.part.number(),
        ]
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
        let parts = [
            SplitPart::Inner,
            SplitPart::Last,
            SplitPart::Empty,
            SplitPart::Skipped,
        ];
        parts.into_iter().find(|part| part.number() == number)
    }
}

/// Returns the spec of elements that a dataset of `spec` yields if it runs on each split alone: a tuple of a
/// vector of two `i64` numbers, which [`SplitNumbers`] describes, and the element.
///
/// # Errors
/// [`AnalysisError`] if the element has too many components.
pub fn numbered_by_split(spec: &ElementSpec) -> Result<ElementSpec, AnalysisError> {
    let failed = |reason: String| AnalysisError::Spec {
        op: OP.to_owned(),
        reason,
    };
    let numbers = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[2]));
    let numbers = numbers.map_err(|error| failed(error.to_string()))?;
    side_by_side(None, &[&numbers, spec]).map_err(failed)
}

/// The root of a tree that runs a program on one split after the other.
pub(super) struct BySplit {
    program: Program,
    shared: Shared,
    feed: Feed,
    /// The number of elements of each split, if the dataset determines it.
    counts: Option<SplitCounts>,
    current: Option<Current>,
    has_ended: bool,
}

/// The split that is being read.
struct Current {
    /// The elements of the split; `None` for a split that was given up.
    input: Option<Input>,
    split: u64,
    /// The share of the split's token, until the split's last element has been made.
    token: Arc<SplitToken>,
    /// The number of elements that the split has yielded.
    yielded: u64,
    /// The number of elements of the split, if it is known.
    count: Option<u64>,
    /// The result after the latest element, which shows whether that element is the last one. It is computed
    /// first only if the number of elements does not show this.
    ahead: Option<Result<Option<Item>, ExecError>>,
}

impl BySplit {
    pub(super) fn new(program: Program, shared: Shared, feed: Feed, counts: Option<SplitCounts>) -> BySplit {
        BySplit {
            program,
            shared,
            feed,
            counts,
            current: None,
            has_ended: false,
        }
    }

    /// Opens the program on the next split. Returns `None` if no split is left for the task.
    fn begin(&mut self) -> Result<Option<Current>, ExecError> {
        let Some(split) = self.feed.next(OP, 0, 0)? else {
            return Ok(None);
        };
        let token = SplitToken::new(split.lease, split.attempt, &self.shared.ledger);
        let (number, is_skipped) = (split.index, split.skipped);
        let only = OneSplit { split, passes: 0 };
        let shared = Shared {
            feed: Some(Feed::new(Box::new(only))),
            split: Some(number),
            // The split finishes with its last element, not when its source was read for the first time.
            ledger: Arc::default(),
            ..self.shared.clone()
        };
        let open = || self.program.open(&shared, None);
        Ok(Some(Current {
            input: if is_skipped { None } else { Some(open()?) },
            split: number,
            token,
            yielded: 0,
            count: self.counts.map(|counts| counts.of(number)),
            ahead: None,
        }))
    }
}

impl Current {
    /// Returns the next element of the split, or `None` after the last one.
    fn next(&mut self, spec: &ElementSpec) -> Result<Option<(Item, SplitPart)>, ExecError> {
        let Some(input) = &mut self.input else {
            return Ok(Some((Item::new(filler(spec), 0), SplitPart::Skipped)));
        };
        let next = match self.ahead.take() {
            Some(ahead) => ahead?,
            None => input.next()?,
        };
        let has_more = self.count.is_some_and(|count| self.yielded < count);
        let Some(item) = next else {
            // A split without elements is reported once.
            let is_empty = self.yielded == 0;
            return match has_more {
                true => Err(self.miscounted("fewer")),
                false => Ok(is_empty.then(|| (Item::new(filler(spec), 0), SplitPart::Empty))),
            };
        };
        match self.count {
            Some(count) if self.yielded >= count => return Err(self.miscounted("more")),
            Some(count) if self.yielded + 1 < count => return Ok(Some((item, SplitPart::Inner))),
            Some(_) | None => (),
        }
        let ahead = input.next();
        let part = match &ahead {
            Ok(None) => SplitPart::Last,
            Ok(Some(_)) if self.count.is_some() => return Err(self.miscounted("more")),
            Ok(Some(_)) | Err(_) => SplitPart::Inner,
        };
        self.ahead = Some(ahead);
        Ok(Some((item, part)))
    }

    /// Returns the failure of a split whose number of elements is not the computed one. Readers rely on this
    /// number.
    fn miscounted(&self, found: &str) -> ExecError {
        let (split, count) = (self.split, self.count.unwrap_or_default());
        let message = format!(
            "expected {count} elements of split {split}, which the analysis of the dataset computed, found {found}: report this defect, with the dataset"
        );
        ExecError::new(ErrorKind::Internal, OP, message)
    }

    /// Puts the additional component before an element, and marks the element with the split.
    fn numbered(&mut self, item: Item, part: SplitPart) -> Item {
        let numbers = SplitNumbers {
            split: self.split,
            position: self.yielded,
            part,
        };
        let mark = Mark {
            token: Arc::clone(&self.token),
            from: self.yielded,
            upto: self.yielded + 1,
        };
        self.yielded += 1;
        Item {
            value: std::iter::once(Tensor::pair(numbers.to_numbers()))
                .chain(item.value)
                .collect(),
            marks: Marks::from_iter([mark]),
            ..item
        }
    }
}

impl Iterate for BySplit {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.has_ended {
            let Some(current) = &mut self.current else {
                self.current = self.begin()?;
                self.has_ended = self.current.is_none();
                continue;
            };
            let Some((item, part)) = current.next(self.program.spec())? else {
                self.current = None;
                continue;
            };
            let item = current.numbered(item, part);
            if part != SplitPart::Inner {
                // The split's token must not wait for the next call.
                self.current = None;
            }
            return Ok(Some(item));
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        let message = "a dataset that runs on each split alone has one pass";
        Err(ExecError::new(ErrorKind::Internal, OP, message))
    }

    fn further(&self) -> Further {
        Further::Nothing
    }

    fn save(&mut self, _: &mut StateWriter) -> Result<(), StateError> {
        Err(StateError::SplitDriven)
    }

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::SplitDriven)
    }
}

/// The feed of a single split. Every pass over the source reads the split again.
struct OneSplit {
    split: Split,
    /// The number of passes that have begun.
    passes: u64,
}

impl SplitSource for OneSplit {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        if source != self.split.source || repetition < self.passes {
            return Ok(None);
        }
        self.passes = repetition + 1;
        Ok(Some(self.split.clone()))
    }
}

/// Returns components that fit `spec` and have as few items as possible.
fn filler(spec: &ElementSpec) -> Value {
    spec.components().iter().map(filling).collect()
}

fn filling(spec: &TensorSpec) -> Tensor {
    let dims: Vec<u64> = spec
        .dims()
        .unwrap_or_default()
        .iter()
        .map(|dim| dim.unwrap_or(0))
        .collect();
    let zeros = fixed_bytes(spec.dtype(), &dims).map(|size| vec![0; size]);
    let filling = match zeros {
        Some(zeros) => Tensor::fixed(spec.dtype(), &dims, zeros),
        None => {
            let items = dims.iter().product::<u64>();
            Tensor::strings(spec.dtype(), &dims, vec![Bytes::new(); items as usize])
        }
    };
    filling.unwrap_or_else(|_| Tensor::i64(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation that yields a number of elements.
    struct Yields(u64);

    impl Iterate for Yields {
        fn next(&mut self) -> Result<Option<Item>, ExecError> {
            let is_over = self.0 == 0;
            self.0 = self.0.saturating_sub(1);
            Ok((!is_over).then(|| Item::new(std::iter::once(Tensor::i64(7)).collect(), 0)))
        }

        fn restart(&mut self) -> Result<(), ExecError> {
            Ok(())
        }

        fn further(&self) -> Further {
            Further::Nothing
        }

        fn save(&mut self, _: &mut StateWriter) -> Result<(), StateError> {
            Ok(())
        }

        fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
            Ok(())
        }
    }

    /// Reads a split that yields `found` elements, of which the analysis computed `count`. Returns the parts.
    fn read(found: u64, count: Option<u64>) -> Result<Vec<SplitPart>, ExecError> {
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[])).unwrap();
        let mut current = Current {
            input: Some(Box::new(Yields(found))),
            split: 3,
            token: SplitToken::new(0, 0, &Arc::default()),
            yielded: 0,
            count,
            ahead: None,
        };
        let mut parts = Vec::new();
        while !matches!(parts.last(), Some(SplitPart::Last | SplitPart::Empty)) {
            let (item, part) = current.next(&spec)?.unwrap();
            current.numbered(item, part);
            parts.push(part);
        }
        Ok(parts)
    }

    #[test]
    fn computed_counts_change_no_part() {
        for found in 0..5 {
            assert_eq!(read(found, Some(found)).unwrap(), read(found, None).unwrap());
        }
    }

    #[test]
    fn wrong_counts_fail_the_split() {
        for (found, count) in [(0, 1), (1, 0), (2, 3), (3, 2), (9, 2)] {
            let error = read(found, Some(count)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
            assert!(error.to_string().contains("of split 3"), "{error}");
        }
    }
}
