//! The order in which a trainer receives the elements of an exactly-once job. Several workers send elements,
//! and a worker may send a split again that a lost worker had begun.
//!
//! The state machine is pure: the caller reads elements and counts credits. Each worker sends a split from
//! its first element on. The number of known elements of a split therefore tells which elements are repeated.
//! A trainer either receives the splits one after the other, or several splits at the same time.

use std::collections::{BTreeMap, VecDeque};

use millstream_pipeline::exec::SplitPart;
use thiserror::Error;

use super::finished::Finished;
use super::place::Place;

/// An element with the numbers that its worker gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered<T> {
    /// The number of the split in the source.
    pub(crate) split: u64,
    /// The position among the elements of the split.
    pub(crate) position: u64,
    pub(crate) part: SplitPart,
    pub(crate) element: T,
}

/// The number of splits from the first unfinished one on of which a trainer in any order receives elements. A
/// position has one bit for each of them, and a resumed job computes at most these splits again.
pub(super) const WINDOW: u64 = 2048;
/// The maximum number of splits that a trainer in any order has begun and not finished, besides the first
/// unfinished one. A position has a number of elements for each of them.
pub(super) const OPEN_MAX: usize = 32;

/// The elements that arrived and are not due, and the position of the elements that are due.
///
/// The elements of the first unfinished split are always due, so each of them is handed out as soon as it
/// arrives. Elements of later splits are due in any order only, and within the window only.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Sequence<T> {
    /// The first unfinished split.
    due: u64,
    step: u64,
    /// The finished splits of the window. Elements of its splits may be due: in a fixed order of one split.
    finished: Finished,
    /// The maximum number of splits after `due` that are begun and not finished.
    open_max: usize,
    /// The other splits from `due` on of which elements arrived.
    splits: BTreeMap<u64, Known<T>>,
    /// The number of elements that arrived again.
    repeated: u64,
    /// The splits that were given up, until the caller takes them. A job skips a bounded number of splits.
    skipped: Vec<u64>,
}

/// The known elements of a split.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
struct Known<T> {
    /// The number of elements that arrived, including those that an earlier reader had.
    count: u64,
    is_over: bool,
    waiting: VecDeque<T>,
}

/// The reason why the order of elements cannot be restored. A worker broke its promise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum SequenceError {
    #[error("split {split}: expected element {expected} or an earlier one, found element {found}")]
    Gap { split: u64, expected: u64, found: u64 },
    #[error(
        "split {split} is not among the splits of this trainer, which begin at {due} and have a distance of {step}"
    )]
    Foreign { split: u64, due: u64, step: u64 },
    #[error(
        "the job ended before split {split} was complete: {count} of its elements arrived, and elements of later splits wait"
    )]
    Incomplete { split: u64, count: u64 },
}

impl<T> Sequence<T> {
    /// Returns the sequence of trainer `first` of `step` trainers, which continues at `place` in a fixed
    /// order.
    pub(crate) fn new(place: &Place, first: u64, step: u64) -> Sequence<T> {
        Sequence::within((1, 0), place, first, step)
    }

    /// Returns the sequence of trainer `first` of `step` trainers, which continues at `place` in any order.
    pub(crate) fn in_any_order(place: &Place, first: u64, step: u64) -> Sequence<T> {
        Sequence::within((WINDOW, OPEN_MAX), place, first, step)
    }

    /// Returns a sequence with a window of splits, and a maximum number of later splits that are begun. With
    /// `(1, 0)` the order is fixed.
    pub(super) fn within(
        (window, open_max): (u64, usize),
        place: &Place,
        first: u64,
        step: u64,
    ) -> Sequence<T> {
        let due = place.first_split(first, step);
        let known = |count: u64| Known {
            count,
            // All elements of the split were handed out, so each arriving one is a repeated one.
            is_over: count == u64::MAX,
            waiting: VecDeque::new(),
        };
        let own = place.had.range(due..);
        let own = own.filter(|(split, _)| (**split - due).is_multiple_of(step));
        let mut sequence = Sequence {
            due,
            step,
            finished: Finished::new(window),
            open_max,
            splits: own
                .clone()
                .map(|(split, count)| (*split, known(*count)))
                .collect(),
            repeated: 0,
            skipped: Vec::new(),
        };
        own.for_each(|(split, _)| sequence.settle(*split));
        sequence.pass_over();
        sequence
    }

    /// Returns the first unfinished split.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Returns whether the next element of a split is due.
    pub(crate) fn is_due(&self, split: u64) -> bool {
        if split <= self.due {
            return split == self.due;
        }
        let is_begun = || self.splits.get(&split).is_some_and(|known| known.had() > 0);
        split < self.end_of_window() && (is_begun() || self.open() < self.open_max)
    }

    /// Takes an element that arrived and hands it out at once, if it is the next one of the first unfinished
    /// split. Otherwise returns false, and the caller must call [`Sequence::accept`]. Most elements are
    /// handed out here.
    pub(crate) fn hand_out_if_next(&mut self, split: u64, position: u64, part: SplitPart) -> bool {
        if split != self.due || matches!(part, SplitPart::Empty | SplitPart::Skipped) {
            return false;
        }
        let known = self.splits.entry(split).or_insert_with(Known::unknown);
        if position != known.count || known.is_over || !known.waiting.is_empty() {
            return false;
        }
        known.count += 1;
        if part == SplitPart::Last {
            known.is_over = true;
            self.settle(split);
            self.pass_over();
        }
        true
    }

    /// Takes an element that arrived. Returns whether it is new, and so waits until it is due.
    pub(crate) fn accept(&mut self, numbered: Numbered<T>) -> Result<bool, SequenceError> {
        let Numbered {
            split,
            position,
            part,
            element,
        } = numbered;
        if split < self.due || self.finished.contains((split - self.due) / self.step) {
            self.repeated += u64::from(matches!(part, SplitPart::Inner | SplitPart::Last));
            return Ok(false);
        }
        if !(split - self.due).is_multiple_of(self.step) {
            let (due, step) = (self.due, self.step);
            return Err(SequenceError::Foreign { split, due, step });
        }
        let known = self.splits.entry(split).or_insert_with(Known::unknown);
        let is_new = position >= known.count && !known.is_over;
        if position > known.count && is_new {
            let expected = known.count;
            return Err(SequenceError::Gap {
                split,
                expected,
                found: position,
            });
        }
        let is_element = match part {
            SplitPart::Inner | SplitPart::Last => true,
            SplitPart::Empty | SplitPart::Skipped => false,
        };
        if part == SplitPart::Skipped && !known.is_over {
            self.skipped.push(split);
        }
        self.repeated += u64::from(!is_new && is_element);
        if is_new && is_element {
            known.count += 1;
            known.waiting.push_back(element);
        }
        // An earlier reader may have had all elements without knowing that they are all.
        known.is_over |= part != SplitPart::Inner;
        self.settle(split);
        self.pass_over();
        Ok(is_new && is_element)
    }

    /// Returns the first due element that has arrived.
    pub(crate) fn next(&mut self) -> Option<T> {
        let split = self.next_split()?;
        let element = self.splits.get_mut(&split)?.waiting.pop_front()?;
        self.settle(split);
        self.pass_over();
        Some(element)
    }

    /// Returns whether a due element has arrived.
    #[cfg(test)]
    pub(crate) fn has_next(&self) -> bool {
        self.next_split().is_some()
    }

    /// Checks that no element is missing before an element that arrived, after the job has ended.
    pub(crate) fn end(&self) -> Result<(), SequenceError> {
        match self.splits.last_key_value() {
            None => Ok(()),
            Some(_) => Err(SequenceError::Incomplete {
                split: self.due,
                count: self.splits.get(&self.due).map_or(0, |known| known.count),
            }),
        }
    }

    /// Returns the position after the elements that were handed out.
    pub(crate) fn place(&self) -> Place {
        let finished = self.finished.distances();
        let finished = finished.map(|distance| (self.due + distance * self.step, u64::MAX));
        Place {
            split: self.due,
            had: self.begun().chain(finished).collect(),
        }
    }

    /// Returns the numbers of the position, for a trainer that notes many positions. The first three numbers
    /// are the first unfinished split, the distance of splits, and the number of words. The words have one
    /// bit for each finished split. Then each begun split has two numbers: the split, and its elements that
    /// were handed out.
    pub(crate) fn place_numbers(&self) -> impl Iterator<Item = u64> {
        let words = self.finished.words();
        let head = [self.due, self.step, words.len() as u64].into_iter();
        let begun = self.begun().flat_map(|(split, count)| [split, count]);
        head.chain(words.iter().copied()).chain(begun)
    }

    /// Returns the number of elements that arrived again.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Takes the splits that were given up since the last call. Their elements that had arrived are kept.
    pub(crate) fn take_skipped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.skipped)
    }

    /// Returns the first split of which a due element has arrived.
    pub(super) fn next_split(&self) -> Option<u64> {
        let within = self.splits.range(self.due..self.end_of_window());
        let arrived = within.filter(|(_, known)| !known.waiting.is_empty());
        arrived.map(|(split, _)| *split).find(|split| self.is_due(*split))
    }

    /// Returns the end of the splits of which elements may be due.
    fn end_of_window(&self) -> u64 {
        self.due
            .saturating_add(self.step.saturating_mul(self.finished.window()))
    }

    /// Returns the splits outside `finished` of which elements were handed out, with the number of elements.
    fn begun(&self) -> impl Iterator<Item = (u64, u64)> {
        let begun = self.splits.iter().filter(|(_, known)| known.had() > 0);
        begun.map(|(split, known)| match known.is_finished() {
            true => (*split, u64::MAX),
            false => (*split, known.had()),
        })
    }

    /// Returns the number of splits after the first unfinished one that are begun and not finished.
    fn open(&self) -> usize {
        let later = self.splits.range(self.due.saturating_add(1)..);
        let open = later.filter(|(_, known)| known.had() > 0 && !known.is_finished());
        open.count()
    }

    /// Notes a finished split in the window as one bit.
    fn settle(&mut self, split: u64) {
        let is_finished = self.splits.get(&split).is_some_and(Known::is_finished);
        if is_finished && self.finished.insert((split - self.due) / self.step) {
            self.splits.remove(&split);
        }
    }

    /// Moves past splits whose elements were all handed out.
    fn pass_over(&mut self) {
        while self.finished.contains(0) {
            self.finished.advance();
            self.due = self.due.saturating_add(self.step);
            // The split may have been finished beyond the window, by an earlier reader.
            self.settle(self.due);
        }
    }
}

impl<T> Known<T> {
    /// Returns the state of a split of which no element is known.
    fn unknown() -> Known<T> {
        Known {
            count: 0,
            is_over: false,
            waiting: VecDeque::new(),
        }
    }

    /// Returns the number of elements that were handed out, by this reader or an earlier one.
    fn had(&self) -> u64 {
        self.count - self.waiting.len() as u64
    }

    /// Returns whether all elements of the split were handed out.
    fn is_finished(&self) -> bool {
        self.is_over && self.waiting.is_empty()
    }
}
