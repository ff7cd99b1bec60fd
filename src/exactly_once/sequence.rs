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
const WINDOW: u64 = 2048;
/// The maximum number of splits that a trainer in any order has begun and not finished, besides the first
/// unfinished one. A position has a number of elements for each of them.
const OPEN_MAX: usize = 32;

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

    fn within((window, open_max): (u64, usize), place: &Place, first: u64, step: u64) -> Sequence<T> {
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
    #[cfg(test)]
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

    /// Checks that no element is missing before one that arrived, after the job has ended.
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
    fn next_split(&self) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The name of an element in these tests: its split and its position.
    type Name = (u64, u64);

    /// Returns what a worker sends of a split of `count` elements.
    fn sent(split: u64, count: u64) -> Vec<Numbered<Name>> {
        let numbered = |position, part| Numbered {
            split,
            position,
            part,
            element: (split, position),
        };
        if count == 0 {
            return vec![numbered(0, SplitPart::Empty)];
        }
        let part = |position| {
            if position + 1 == count {
                SplitPart::Last
            } else {
                SplitPart::Inner
            }
        };
        (0..count)
            .map(|position| numbered(position, part(position)))
            .collect()
    }

    /// A run of workers that die: for each of them, its splits in order, and the number of elements that it
    /// sends before it dies.
    fn arrivals(counts: &[u64], owners: &[usize], deaths: &[usize]) -> Vec<VecDeque<Numbered<Name>>> {
        let mut workers: Vec<VecDeque<Numbered<Name>>> = vec![VecDeque::new(); 3];
        for (split, count) in (0_u64..).zip(counts) {
            let owner = owners[split as usize % owners.len()] % 3;
            workers[owner].extend(sent(split, *count));
        }
        // A survivor sends the splits of a dead worker again, from the first element of its first lost split.
        for (worker, dies_after) in deaths.iter().enumerate().take(2) {
            let kept = (*dies_after).min(workers[worker].len());
            let lost = workers[worker].split_off(kept);
            let again: BTreeSet<u64> = lost.iter().map(|numbered| numbered.split).collect();
            for split in again {
                workers[2].extend(sent(split, counts[split as usize]));
            }
        }
        workers
    }

    /// A reader that remembers every element, and looks for the next one among all of them.
    #[derive(Default)]
    struct Naive {
        window: u64,
        open_max: usize,
        arrived: BTreeSet<Name>,
        over: BTreeSet<u64>,
        handed: BTreeSet<Name>,
    }

    impl Naive {
        fn accept(&mut self, numbered: &Numbered<Name>) {
            if numbered.part != SplitPart::Empty {
                self.arrived.insert(numbered.element);
            }
            if numbered.part != SplitPart::Inner {
                self.over.insert(numbered.split);
            }
        }

        fn handed_of(&self, split: u64) -> usize {
            self.handed.range((split, 0)..(split + 1, 0)).count()
        }

        fn is_finished(&self, split: u64) -> bool {
            let arrived = self.arrived.range((split, 0)..(split + 1, 0));
            self.over.contains(&split) && arrived.count() <= self.handed_of(split)
        }

        fn next(&mut self) -> Option<Name> {
            let first = (0..).find(|split| !self.is_finished(*split))?;
            let later: BTreeSet<u64> = self
                .handed
                .iter()
                .map(|name| name.0)
                .filter(|split| *split > first)
                .collect();
            let open = later.iter().filter(|split| !self.is_finished(**split)).count();
            let is_due = |split: u64| {
                split == first
                    || (split < first + self.window && (self.handed_of(split) > 0 || open < self.open_max))
            };
            let next = self
                .arrived
                .difference(&self.handed)
                .find(|name| is_due(name.0))
                .copied();
            self.handed.extend(next);
            next
        }
    }

    proptest! {
        /// Whichever workers die, and wherever a reader resumes, the reader receives each element once. The
        /// elements are those of a naive reader, in a fixed order as well as in any order.
        #[test]
        fn each_element_is_due_once(
            counts in prop::collection::vec(0_u64..5, 1..20),
            owners in prop::collection::vec(0_usize..3, 1..7),
            deaths in prop::collection::vec(0_usize..40, 2),
            turns in prop::collection::vec(0_usize..3, 1..20),
            resumes_after in prop::collection::vec(0_usize..30, 0..4),
            (window, open_max) in (1_u64..8, 0_usize..4),
            hands_out: bool,
        ) {
            let all: Vec<Name> = (0_u64..).zip(&counts).flat_map(|(split, count)| (0..*count).map(move |at| (split, at))).collect();
            let mut naive = Naive { window, open_max, ..Naive::default() };
            let mut found = Vec::new();
            let mut place = Place::default();
            for limit in resumes_after.into_iter().chain([usize::MAX]) {
                let mut sequence = Sequence::within((window, open_max), &place, 0, 1);
                let mut taken = 0;
                // The resumed reader has lost the elements that were not handed out.
                naive.arrived = naive.handed.clone();
                naive.over.retain(|split| *split < place.split || place.had.get(split) == Some(&u64::MAX));
                let mut workers = arrivals(&counts, &owners, &deaths);
                // A job that resumes leases no split before its position.
                for worker in &mut workers {
                    worker.retain(|numbered| numbered.split >= place.split);
                }
                let mut turn = turns.iter().copied().cycle();
                'reading: while let Some(numbered) = (0..3).map(|at| (turn.next().unwrap() + at) % 3).find_map(|worker| workers[worker].pop_front())
                    .or_else(|| workers.iter_mut().find_map(VecDeque::pop_front))
                {
                    naive.accept(&numbered);
                    let (split, is_due) = (numbered.split, sequence.is_due(numbered.split));
                    if taken < limit && hands_out && sequence.hand_out_if_next(split, numbered.position, numbered.part) {
                        prop_assert_eq!(naive.next(), Some(numbered.element));
                        found.push(numbered.element);
                        taken += 1;
                    } else {
                        let is_new = sequence.accept(numbered).unwrap();
                        prop_assert!(!is_new || is_due == (sequence.next_split() == Some(split)));
                    }
                    while taken < limit && let Some(name) = sequence.next() {
                        prop_assert_eq!(naive.next(), Some(name));
                        found.push(name);
                        taken += 1;
                    }
                    if taken == limit {
                        break 'reading;
                    }
                    prop_assert_eq!(naive.next(), None);
                }
                if limit == usize::MAX {
                    prop_assert_eq!(sequence.end(), Ok(()));
                }
                place = sequence.place();
                prop_assert!(Place::from_bytes(&place.to_bytes()).as_ref() == Some(&place));
                prop_assert!(place.had.keys().all(|split| *split < place.split + window));
                let open = place.had.iter().filter(|(split, count)| **split > place.split && **count < u64::MAX);
                prop_assert!(open.count() <= open_max);
            }
            if window == 1 {
                prop_assert!(found.is_sorted());
            }
            found.sort_unstable();
            prop_assert_eq!(found, all);
        }
    }

    /// A split that no worker has finished stops no other split within the window.
    #[test]
    fn any_order_hands_out_whole_splits_early() {
        let mut sequence = Sequence::in_any_order(&Place::default(), 1, 3);
        let mut handed = |split| {
            for numbered in sent(split, 2) {
                sequence.accept(numbered).unwrap();
            }
            std::iter::from_fn(|| sequence.next()).count()
        };
        let within = (1..WINDOW).map(|at| handed(1 + 3 * at)).sum::<usize>();
        assert_eq!(within as u64, 2 * (WINDOW - 1));
        assert_eq!(handed(1 + 3 * WINDOW), 0, "the split is beyond the window");
        assert_eq!(handed(1), 4, "the window moves on");
        assert_eq!(
            sequence.place(),
            Place {
                split: 1 + 3 * (WINDOW + 1),
                had: BTreeMap::new()
            }
        );
    }

    /// The first unfinished split has a place of its own, so its elements never wait.
    #[test]
    fn open_splits_are_bounded_in_any_order() {
        let mut sequence = Sequence::in_any_order(&Place::default(), 0, 1);
        let mut handed = |split| {
            sequence.accept(sent(split, 2).remove(0)).unwrap();
            sequence.next()
        };
        let begun = (1..100).filter_map(&mut handed).count();
        assert_eq!(begun, OPEN_MAX);
        assert_eq!(handed(0), Some((0, 0)));
        assert_eq!(sequence.place().had.len(), OPEN_MAX + 1);
    }

    #[test]
    fn gaps_and_foreign_splits_are_errors() {
        let mut sequence = Sequence::new(&Place::default(), 1, 2);
        let numbered = |split, position| Numbered {
            split,
            position,
            part: SplitPart::Inner,
            element: (),
        };
        assert!(matches!(
            sequence.accept(numbered(2, 0)),
            Err(SequenceError::Foreign { split: 2, .. })
        ));
        assert!(matches!(
            sequence.accept(numbered(3, 1)),
            Err(SequenceError::Gap {
                split: 3,
                expected: 0,
                found: 1
            })
        ));
    }

    #[test]
    fn a_skipped_split_keeps_its_arrived_elements() {
        let mut sequence = Sequence::new(&Place::default(), 0, 1);
        let first = sent(0, 2).remove(0);
        assert_eq!(sequence.accept(first), Ok(true));
        for numbered in sent(1, 1) {
            sequence.accept(numbered).unwrap();
        }
        let skipped = || Numbered {
            part: SplitPart::Skipped,
            ..sent(0, 0).remove(0)
        };
        assert_eq!(sequence.accept(skipped()), Ok(false));
        assert_eq!(sequence.take_skipped(), [0]);
        assert_eq!([sequence.next(), sequence.next()], [Some((0, 0)), Some((1, 0))]);
        assert_eq!(
            sequence.accept(skipped()),
            Ok(false),
            "the report may be repeated"
        );
        assert_eq!((sequence.take_skipped(), sequence.end()), (vec![], Ok(())));
        assert_eq!(sequence.place().split, 2);
    }

    #[test]
    fn an_end_before_a_split_is_an_error() {
        let mut sequence = Sequence::new(&Place::default(), 0, 1);
        for numbered in sent(1, 2) {
            sequence.accept(numbered).unwrap();
        }
        assert_eq!(sequence.next(), None);
        assert_eq!(
            sequence.end(),
            Err(SequenceError::Incomplete { split: 0, count: 0 })
        );
    }
}
