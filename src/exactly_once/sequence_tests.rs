//! Tests of the order of elements: a naive reader as the oracle, limits of any order, and errors of workers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_pipeline::exec::SplitPart;
use proptest::prelude::*;

use super::place::Place;
use super::sequence::{Numbered, OPEN_MAX, Sequence, SequenceError, WINDOW};

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
