//! The order in which a trainer receives the elements of an exactly-once job. Several workers send elements,
//! and a worker may send a split again that a lost worker had begun.
//!
//! The state machine is pure: the caller reads elements and counts credits. Each worker sends a split from
//! its first element on. The number of known elements of a split therefore tells which elements are repeated.

use std::collections::{BTreeMap, VecDeque};

use millstream_pipeline::exec::SplitPart;
use thiserror::Error;

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

/// The elements that arrived and are not due, and the position of the element that is due.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Sequence<T> {
    /// The split of the element that is due.
    due: u64,
    step: u64,
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
    /// Returns the sequence of trainer `first` of `step` trainers, which continues at `place`.
    pub(crate) fn new(place: &Place, first: u64, step: u64) -> Sequence<T> {
        let due = place.first_split(first, step);
        let own = place
            .had
            .iter()
            .filter(|(split, _)| **split >= due && (**split - due).is_multiple_of(step));
        let known = |count: u64| Known {
            count,
            // All elements of the split were handed out, so each arriving one is a repeated one.
            is_over: count == u64::MAX,
            waiting: VecDeque::new(),
        };
        let mut sequence = Sequence {
            due,
            step,
            splits: own.map(|(split, count)| (*split, known(*count))).collect(),
            repeated: 0,
            skipped: Vec::new(),
        };
        sequence.pass_over();
        sequence
    }

    /// Returns the split of the element that is due.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Takes an element that arrived. Returns whether it is new, and so waits until it is due.
    pub(crate) fn accept(&mut self, numbered: Numbered<T>) -> Result<bool, SequenceError> {
        let Numbered {
            split,
            position,
            part,
            element,
        } = numbered;
        if split < self.due {
            self.repeated += 1;
            return Ok(false);
        }
        if !(split - self.due).is_multiple_of(self.step) {
            let (due, step) = (self.due, self.step);
            return Err(SequenceError::Foreign { split, due, step });
        }
        let known = self.splits.entry(split).or_insert_with(|| Known {
            count: 0,
            is_over: false,
            waiting: VecDeque::new(),
        });
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
        self.pass_over();
        Ok(is_new && is_element)
    }

    /// Returns the element that is due, if it has arrived.
    pub(crate) fn next(&mut self) -> Option<T> {
        let known = self.splits.get_mut(&self.due)?;
        let element = known.waiting.pop_front()?;
        self.pass_over();
        Some(element)
    }

    /// Returns whether the element that is due has arrived.
    pub(crate) fn has_next(&self) -> bool {
        let known = self.splits.get(&self.due);
        known.is_some_and(|known| !known.waiting.is_empty())
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
        let had = self.splits.iter().map(|(split, known)| (*split, known.had()));
        let had = had.filter(|(_, count)| *count > 0).collect();
        Place { split: self.due, had }
    }

    /// Returns the number of elements that arrived again.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Takes the splits that were given up since the last call. Their elements that had arrived are kept.
    pub(crate) fn take_skipped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.skipped)
    }

    /// Moves past splits whose elements were all handed out.
    fn pass_over(&mut self) {
        while let Some(known) = self.splits.get(&self.due)
            && known.is_over
            && known.waiting.is_empty()
        {
            self.splits.remove(&self.due);
            self.due = self.due.saturating_add(self.step);
        }
    }
}

impl<T> Known<T> {
    /// Returns the number of elements that were handed out, by this reader or an earlier one.
    fn had(&self) -> u64 {
        self.count - self.waiting.len() as u64
    }
}

#[cfg(test)]
mod tests {
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
            let again: std::collections::BTreeSet<u64> = lost.iter().map(|numbered| numbered.split).collect();
            for split in again {
                workers[2].extend(sent(split, counts[split as usize]));
            }
        }
        workers
    }

    proptest! {
        /// Whichever workers die, and wherever a reader resumes, the reader receives each element once and
        /// in order.
        #[test]
        fn each_element_is_due_once(
            counts in prop::collection::vec(0_u64..5, 1..20),
            owners in prop::collection::vec(0_usize..3, 1..7),
            deaths in prop::collection::vec(0_usize..40, 2),
            turns in prop::collection::vec(0_usize..3, 1..20),
            resumes_after in 0_usize..60,
        ) {
            let all: Vec<Name> = (0_u64..).zip(&counts).flat_map(|(split, count)| (0..*count).map(move |at| (split, at))).collect();
            let mut found = Vec::new();
            let mut place = Place::default();
            for limit in [resumes_after, usize::MAX] {
                let mut sequence = Sequence::new(&place, 0, 1);
                let mut workers = arrivals(&counts, &owners, &deaths);
                // A job that resumes leases no split before its position.
                for worker in &mut workers {
                    worker.retain(|numbered| numbered.split >= place.split);
                }
                let mut turn = turns.iter().copied().cycle();
                'reading: while let Some(numbered) = (0..3).map(|at| (turn.next().unwrap() + at) % 3).find_map(|worker| workers[worker].pop_front())
                    .or_else(|| workers.iter_mut().find_map(VecDeque::pop_front))
                {
                    sequence.accept(numbered).unwrap();
                    while let Some(name) = sequence.next() {
                        found.push(name);
                        if found.len() >= limit {
                            break 'reading;
                        }
                    }
                }
                if limit == usize::MAX {
                    prop_assert_eq!(sequence.end(), Ok(()));
                }
                place = sequence.place();
                prop_assert!(Place::from_bytes(&place.to_bytes()).as_ref() == Some(&place));
            }
            prop_assert_eq!(found, all);
        }
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
