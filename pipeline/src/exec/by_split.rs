//! The execution of a dataset on each split alone, for exactly-once jobs.
//!
//! The elements of a split are then a function of dataset, seed, epoch and split. Another task that reads the
//! split yields the same elements in the same order. Every element has an additional component with
//! numbers, by which a reader orders elements and recognises repeated ones. This module knows neither readers
//! nor the process that chooses the splits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_element::{Dtype, ElementSpec, TensorSpec};

use super::context::Shared;
use super::error::{ErrorKind, ExecError};
use super::expected::Expected;
use super::item::Item;
use super::iterate::{Further, Input, Iterate};
use super::program::Program;
use super::quarantine::{Quarantine, SplitQuarantine};
use super::split_numbers::{SplitNumbers, SplitPart};
use super::splits::{Feed, Split, SplitError, SplitSource};
use super::state::{StateError, StateReader, StateWriter};
use super::token::{Mark, SplitToken};
use super::value::{Tensor, Value, fixed_bytes};
use crate::graph::spec::side_by_side;
use crate::graph::{AnalysisError, FilePart, SplitCounts};
use crate::ops::prefetch::exec::Prefetch;
use crate::storage::Storage;

/// The name of the executor's part in errors.
const OP: &str = "by_split";

/// The time of a split from which on the next split is computed ahead. A faster split is not worth a thread.
const AHEAD_FROM: Duration = Duration::from_millis(2);
/// The maximum number of elements of the next split that are computed ahead.
const AHEAD_ELEMENTS: u64 = 2;

/// The number of components before the components of the dataset: the one with the [`SplitNumbers`].
pub const COMPONENTS_ADDED: usize = 1;

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
    /// The elements that failed in earlier attempts, if failed elements may be left out.
    quarantine: Option<Quarantine>,
    current: Option<Current>,
    /// The split after the current one, whose first elements a thread computes already. Otherwise most
    /// threads of a parallel map would wait while the last elements of the current split are computed. An
    /// error is returned after the elements of the current split.
    next_split: Option<Result<Current, ExecError>>,
    may_compute_ahead: bool,
    /// Whether the latest split took long enough for computing splits ahead.
    is_slow: bool,
    has_ended: bool,
}

/// The split that is being read.
struct Current {
    /// The elements of the split; `None` for a split that was given up.
    input: Option<Input>,
    split: u64,
    /// The time at which the split was opened. A split that was computed ahead is opened before the elements
    /// of the previous split were read.
    begun: Instant,
    /// The share of the split's token, until the split's last element has been made.
    token: Arc<SplitToken>,
    /// The number of elements that the split has yielded.
    yielded: u64,
    /// The number of elements of the split, if it is known.
    count: Option<u64>,
    /// The result after the latest element, which shows whether that element is the last one. It is computed
    /// first only if the number of elements does not show this.
    ahead: Option<Result<Option<Item>, ExecError>>,
    /// The storage that knows the version of the split's file.
    expecting: Option<Storage>,
}

impl BySplit {
    pub(super) fn new(
        program: Program,
        shared: Shared,
        feed: Feed,
        counts: Option<SplitCounts>,
        quarantine: Option<Quarantine>,
    ) -> BySplit {
        BySplit {
            may_compute_ahead: program.graph().may_compute_splits_ahead(),
            program,
            shared,
            feed,
            counts,
            quarantine,
            current: None,
            next_split: None,
            is_slow: false,
            has_ended: false,
        }
    }

    /// Begins the next split, or notes that no split is left for the task.
    fn advance(&mut self) -> Result<(), ExecError> {
        self.current = match self.next_split.take() {
            Some(next) => Some(next?),
            None => {
                let split = self.feed.next(OP, 0, 0)?;
                split.map(|split| self.open(split)).transpose()?
            }
        };
        self.has_ended = self.current.is_none();
        if self.may_compute_ahead && self.is_slow && !self.has_ended {
            let split = self.feed.next_at_hand(0, 0);
            self.next_split = split.map(|split| self.begin_ahead(split));
        }
        Ok(())
    }

    /// Begins to compute a split in another thread.
    fn begin_ahead(&self, split: Split) -> Result<Current, ExecError> {
        let mut next = self.open(split)?;
        if let Some(input) = next.input.take() {
            let expected = Expected::of(self.program.spec());
            let mut prefetch = Prefetch::new(AHEAD_ELEMENTS, expected, input, self.shared.clone());
            if let Err(error) = prefetch.begin() {
                next.token.abandon();
                return Err(error);
            }
            next.input = Some(Box::new(prefetch));
        }
        Ok(next)
    }

    /// Opens the program on a split.
    fn open(&self, split: Split) -> Result<Current, ExecError> {
        let begun = Instant::now();
        let (number, is_skipped) = (split.index, split.skipped);
        let (lease, attempt) = (split.lease, split.attempt);
        let expecting = self.expecting(&split);
        let storage = expecting.as_ref().unwrap_or(&self.shared.storage).clone();
        let only = OneSplit { split, passes: 0 };
        let quarantine = self.quarantine.as_ref().map(|elements| elements.of_split(number));
        let is_complete = quarantine.as_ref().is_none_or(SplitQuarantine::is_empty);
        let shared = Shared {
            feed: Some(Feed::new(Box::new(only))),
            split: Some(number),
            quarantine,
            storage,
            // The split finishes with its last element, not when its source was read for the first time.
            ledger: Arc::default(),
            ..self.shared.clone()
        };
        let open = || {
            check_unchanged(expecting.as_ref())?;
            self.program.open(&shared, None)
        };
        Ok(Current {
            input: if is_skipped { None } else { Some(open()?) },
            split: number,
            begun,
            // The token of a split that cannot be opened would count the split as finished.
            token: SplitToken::new(lease, attempt, &self.shared.ledger),
            yielded: 0,
            count: self
                .counts
                .filter(|_| is_complete)
                .map(|counts| counts.of(number)),
            ahead: None,
            expecting,
        })
    }

    /// Returns a storage that opens the file of a split only in the version that all attempts at the split
    /// must read. Returns `None` if the split has no file, or a file of an unknown version.
    fn expecting(&self, split: &Split) -> Option<Storage> {
        let version = split.version?;
        let file = FilePart::of(std::str::from_utf8(&split.payload).ok()?);
        Some(self.shared.storage.expecting(file.path, version))
    }

    /// Returns the next element, at any position of its split.
    fn next_of_any(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.has_ended {
            let Some(current) = &mut self.current else {
                self.advance()?;
                continue;
            };
            let next = current.next(self.program.spec());
            match &next {
                Ok(Some(item)) => {
                    // The split's token must not wait for the next call.
                    if item
                        .numbers
                        .is_some_and(|numbers| numbers.part != SplitPart::Inner)
                    {
                        self.end();
                    }
                    return next;
                }
                Ok(None) => self.end(),
                Err(_) => return next,
            }
        }
        Ok(None)
    }

    /// Ends the current split.
    fn end(&mut self) {
        let ended = self.current.take();
        self.is_slow = ended.is_some_and(|split| split.begun.elapsed() >= AHEAD_FROM);
    }
}

impl Current {
    /// Returns whether the next element is known to be neither the first result that was computed ahead, nor
    /// the last element.
    #[inline]
    fn next_is_inner(&self) -> bool {
        let is_before_last = self.count.is_some_and(|count| self.yielded + 1 < count);
        is_before_last && self.ahead.is_none() && self.input.is_some()
    }

    /// Numbers the next result of the input, which should be an inner element.
    #[inline]
    fn number_inner(&mut self, next: &mut Result<Option<Item>, ExecError>) {
        match next {
            Ok(Some(item)) => self.number(item, SplitPart::Inner),
            Ok(None) => *next = Err(self.miscounted("fewer")),
            Err(_) => (),
        }
    }

    /// Returns the next element of the split with its numbers, or `None` after the last one.
    #[inline]
    fn next(&mut self, spec: &ElementSpec) -> Result<Option<Item>, ExecError> {
        let Some(input) = &mut self.input else {
            return Ok(Some(self.filler(spec, SplitPart::Skipped)));
        };
        // The element is numbered in place, because moving it costs as much as a cheap operation. Taking an
        // absent result out of its place would cost as much.
        let mut next = if self.ahead.is_some() {
            self.ahead.take().unwrap_or(Ok(None))
        } else {
            input.next()
        };
        match &mut next {
            Ok(Some(item)) => {
                let part = self.part()?;
                self.number(item, part);
            }
            Ok(None) => return self.last(spec),
            Err(_) => (),
        }
        next
    }

    /// Returns the part of the element that was read last and has no numbers yet.
    #[inline]
    fn part(&mut self) -> Result<SplitPart, ExecError> {
        match self.count {
            Some(count) if self.yielded >= count => Err(self.miscounted("more")),
            Some(count) if self.yielded + 1 < count => Ok(SplitPart::Inner),
            Some(_) | None => self.part_by_next(),
        }
    }

    /// Computes the next element, to learn whether the element before it is the last one.
    fn part_by_next(&mut self) -> Result<SplitPart, ExecError> {
        let ahead = self.input.as_mut().map_or(Ok(None), |input| input.next());
        let part = match &ahead {
            Ok(None) => {
                check_unchanged(self.expecting.as_ref())?;
                SplitPart::Last
            }
            Ok(Some(_)) if self.count.is_some() => return Err(self.miscounted("more")),
            Ok(Some(_)) | Err(_) => SplitPart::Inner,
        };
        self.ahead = Some(ahead);
        Ok(part)
    }

    /// Returns the result after the last element. A split without elements is reported once.
    fn last(&mut self, spec: &ElementSpec) -> Result<Option<Item>, ExecError> {
        if self.count.is_some_and(|count| self.yielded < count) {
            return Err(self.miscounted("fewer"));
        }
        let is_empty = self.yielded == 0;
        check_unchanged(self.expecting.as_ref())?;
        Ok(is_empty.then(|| self.filler(spec, SplitPart::Empty)))
    }

    /// Returns an element that stands for a split without elements.
    fn filler(&mut self, spec: &ElementSpec, part: SplitPart) -> Item {
        let mut item = Item::new(filler(spec), 0);
        self.number(&mut item, part);
        item
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

    /// Gives an element its numbers, and marks it with the split.
    #[inline(always)]
    fn number(&mut self, item: &mut Item, part: SplitPart) {
        item.numbers = Some(SplitNumbers {
            split: self.split,
            position: self.yielded,
            part,
        });
        item.marks.clear();
        item.marks.push(Mark {
            token: Arc::clone(&self.token),
            from: self.yielded,
            upto: self.yielded + 1,
        });
        self.yielded += 1;
    }
}

impl Iterate for BySplit {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        // Most elements are inner ones of known splits. They are numbered where they are returned, because
        // moving an element costs as much as a cheap operation.
        let inner = self.current.as_mut().filter(|current| current.next_is_inner());
        let is_inner = inner.is_some();
        let mut next = match inner.and_then(|current| current.input.as_mut()) {
            Some(input) => input.next(),
            None => self.next_of_any(),
        };
        if is_inner && let Some(current) = &mut self.current {
            current.number_inner(&mut next);
        }
        if let (Err(error), Some(current)) = (&mut next, &self.current) {
            error.note_yielded(current.yielded);
        }
        next
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

/// Checks that the file of a split still has the version with which the epoch was planned. A file that is
/// changed while it is read would yield a mixture of both versions.
fn check_unchanged(storage: Option<&Storage>) -> Result<(), ExecError> {
    let checked = storage.map_or(Ok(()), Storage::check_expected);
    checked.map_err(|error| ExecError::new(error.kind(), OP, error.to_string()))
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
            begun: Instant::now(),
            token: SplitToken::new(0, 0, &Arc::default()),
            yielded: 0,
            count,
            ahead: None,
            expecting: None,
        };
        let mut parts = Vec::new();
        while !matches!(parts.last(), Some(SplitPart::Last | SplitPart::Empty)) {
            let item = current.next(&spec)?.unwrap();
            parts.push(item.numbers.unwrap().part);
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
