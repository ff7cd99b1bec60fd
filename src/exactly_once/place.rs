//! The position of a trainer in an epoch of an exactly-once job. Does not know readers and elements.

use std::collections::BTreeMap;

use millstream_pipeline::graph::SplitCounts;
use minicbor::{Decode, Encode};

/// The position of a trainer: the split of the next element, and the splits after it that were read before.
///
/// In a fixed order the position does not depend on the workers. Its size is constant unless trainers were
/// added or removed in the epoch. In any order its size is bounded by the window of the reader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Place {
    /// The number of the first split of which elements are left.
    #[n(0)]
    pub split: u64,
    /// The number of elements that the trainers already have, for each split from `split` on of which they
    /// have any. `u64::MAX` stands for all elements.
    #[n(1)]
    pub had: BTreeMap<u64, u64>,
}

/// The maximum number of splits from the first one on of which a position names elements. Two times the
/// maximum number of trainers, and room for trainers of different speeds or of any order.
const SPLITS_MAX: usize = 1 << 16;

impl Place {
    /// Returns the position in the bytes of a saved state.
    pub fn to_bytes(&self) -> Vec<u8> {
        let pairs = self.had.iter().flat_map(|(split, count)| [*split, *count]);
        let numbers = std::iter::once(self.split).chain(pairs);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// Returns the position that [`Place::to_bytes`] wrote; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Place> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (split, pairs) = numbers.split_first()?;
        let (pairs, odd) = pairs.as_chunks::<2>();
        let had: BTreeMap<u64, u64> = pairs.iter().map(|[split, count]| (*split, *count)).collect();
        let is_valid = rest.is_empty()
            && odd.is_empty()
            && pairs.len() <= SPLITS_MAX
            && had.len() == pairs.len()
            && had.keys().all(|known| known >= split);
        is_valid.then_some(Place { split: *split, had })
    }

    /// Returns the position of the trainers together, from the positions of all `places.len()` trainers of
    /// an epoch in the order of their numbers. Other numbers of trainers continue from the result.
    ///
    /// Each trainer continues at its own first split from the result's split on.
    pub fn joined(places: &[Place]) -> Place {
        let split = places.iter().map(|place| place.split).min().unwrap_or_default();
        let mut had = BTreeMap::new();
        for (trainer, place) in (0_u64..).zip(places) {
            let step = places.len() as u64;
            let is_own = |split: &u64| split % step == trainer;
            let done = (split..place.split).filter(is_own);
            had.extend(done.map(|split| (split, u64::MAX)));
            had.extend(
                place
                    .had
                    .iter()
                    .filter(|(split, _)| is_own(split))
                    .map(|(split, count)| (*split, *count)),
            );
        }
        Place { split, had }
    }

    /// Returns the position of all trainers together after each of them has received `steps` more elements
    /// from this position on. A trainer that has fewer elements left receives all of them.
    pub fn after(&self, counts: &SplitCounts, trainers: u64, steps: u64) -> Place {
        let places: Vec<Place> = (0..trainers)
            .map(|trainer| self.after_one(counts, (trainer, trainers), steps))
            .collect();
        Place::joined(&places)
    }

    /// Returns the number of elements that trainer `trainer` of `trainers` receives from this position on.
    /// Returns `u64::MAX` for a larger number, which an endless source may have.
    pub fn left(&self, counts: &SplitCounts, trainer: u64, trainers: u64) -> u64 {
        let first = self.first_split(trainer, trainers);
        let had = self
            .had
            .range(first..)
            .filter(|(split, _)| (**split - first).is_multiple_of(trainers));
        let had: u64 = had.map(|(split, count)| (*count).min(counts.of(*split))).sum();
        let last = counts.splits.saturating_sub(1);
        let whole = last.saturating_sub(first).div_ceil(trainers);
        let ends = first <= last && (last - first).is_multiple_of(trainers);
        let ends_with = if ends { counts.of(last) } else { 0 };
        let all = u128::from(whole) * u128::from(counts.each) + u128::from(ends_with);
        u64::try_from(all - u128::from(had)).unwrap_or(u64::MAX)
    }

    /// Returns the split and the position in it of the element that a trainer receives after `steps` more
    /// elements. Returns `None` if the trainer has fewer elements left.
    pub fn element_after(
        &self,
        counts: &SplitCounts,
        (trainer, trainers): (u64, u64),
        steps: u64,
    ) -> Option<(u64, u64)> {
        if steps >= self.left(counts, trainer, trainers) {
            return None;
        }
        let Place { split, had } = self.after_one(counts, (trainer, trainers), steps);
        Some((split, had.get(&split).copied().unwrap_or(0)))
    }

    /// Returns the position of one trainer after `steps` more elements.
    fn after_one(&self, counts: &SplitCounts, (trainer, trainers): (u64, u64), mut steps: u64) -> Place {
        let mut split = self.first_split(trainer, trainers);
        let own = self
            .had
            .range(split..)
            .filter(|(known, _)| (**known - split).is_multiple_of(trainers));
        for (known, had) in own.collect::<Vec<_>>() {
            // No split before `known` is the last one.
            let whole = (known - split) / trainers;
            if steps < whole.saturating_mul(counts.each) {
                break;
            }
            steps -= whole * counts.each;
            split = *known;
            let left = counts.of(split).saturating_sub(*had);
            if steps < left {
                return self.with(split, had + steps);
            }
            steps -= left;
            split += trainers;
        }
        let last = counts.splits.saturating_sub(1);
        let whole = last.saturating_sub(split).div_ceil(trainers);
        if steps < whole.saturating_mul(counts.each) {
            return self.with(split + steps / counts.each * trainers, steps % counts.each);
        }
        steps -= whole * counts.each;
        split += whole * trainers;
        match steps < counts.of(split) {
            true => self.with(split, steps),
            false => self.with(split + if split == last { trainers } else { 0 }, 0),
        }
    }

    /// Returns the position at `count` elements of a split, with the later splits of this position.
    fn with(&self, split: u64, count: u64) -> Place {
        let mut had: BTreeMap<u64, u64> = self
            .had
            .range(split + 1..)
            .map(|(known, had)| (*known, *had))
            .collect();
        if count > 0 {
            had.insert(split, count);
        }
        Place { split, had }
    }

    /// Returns the number of elements of a split that the trainers have. Returns `u64::MAX` for all elements.
    pub(crate) fn had_of(&self, split: u64) -> u64 {
        if split < self.split {
            return u64::MAX;
        }
        self.had.get(&split).copied().unwrap_or(0)
    }

    /// Returns the first split from `split` on that trainer `first` of `step` trainers reads.
    pub fn first_split(&self, first: u64, step: u64) -> u64 {
        let behind = self.split.saturating_sub(first).div_ceil(step);
        first.saturating_add(behind.saturating_mul(step))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Place {
        /// Returns the splits and positions of the elements that a trainer receives, counted one by one.
        fn elements_left(&self, counts: &SplitCounts, trainer: u64, trainers: u64) -> Vec<(u64, u64)> {
            let own = (trainer..counts.splits).step_by(trainers as usize);
            let left = own.filter(|split| *split >= self.split).flat_map(|split| {
                let had = self.had.get(&split).copied().unwrap_or(0);
                (had.min(counts.of(split))..counts.of(split)).map(move |at| (split, at))
            });
            left.collect()
        }
    }

    #[test]
    fn endless_sources_have_more_elements_than_fit() {
        // The product of the numbers does not fit into 64 bits.
        let counts = SplitCounts {
            splits: 1 << 52,
            each: 1 << 13,
            last: 1 << 13,
        };
        let place = Place::default().after(&counts, 2, (3 << 13) + 5);
        let (split, had) = (6, BTreeMap::from([(6, 5), (7, 5)]));
        assert_eq!(place, Place { split, had });
        assert_eq!(place.left(&counts, 0, 1), u64::MAX);
        assert_eq!(place.element_after(&counts, (1, 2), 1 << 13), Some((9, 5)));
    }

    proptest! {
        #[test]
        fn places_survive_their_bytes(split in 0_u64..9, had in prop::collection::btree_map(9_u64..30, any::<u64>(), 0..5)) {
            let place = Place { split, had };
            prop_assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
        }

        #[test]
        fn any_bytes_are_a_place_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(place) = Place::from_bytes(&bytes) {
                prop_assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
            }
        }

        /// A position that was computed from the counts of splits is the position that a trainer reaches.
        #[test]
        fn computed_positions_are_those_of_trainers(
            splits in 0_u64..20,
            each in 0_u64..5,
            last in 0_u64..5,
            changes in prop::collection::vec((1_u64..5, 0_u64..12), 1..4),
        ) {
            let counts = SplitCounts { splits, each, last };
            let mut place = Place::default();
            let mut read: Vec<(u64, u64)> = Vec::new();
            for (trainers, steps) in changes {
                for trainer in 0..trainers {
                    let own = place.elements_left(&counts, trainer, trainers);
                    prop_assert_eq!(own.len() as u64, place.left(&counts, trainer, trainers));
                    for (at, element) in (0..).zip(own.iter().map(Some).chain([None])) {
                        let found = place.element_after(&counts, (trainer, trainers), at);
                        prop_assert_eq!(found.as_ref(), element);
                    }
                    read.extend(own.into_iter().take(steps as usize));
                }
                place = place.after(&counts, trainers, steps);
            }
            read.extend(place.elements_left(&counts, 0, 1));
            read.sort_unstable();
            let all: Vec<(u64, u64)> = (0..splits).flat_map(|split| (0..counts.of(split)).map(move |at| (split, at))).collect();
            prop_assert_eq!(read, all);
        }

        /// Elements that trainers have before a change of their number are exactly those that no trainer
        /// reads after it.
        #[test]
        fn joined_places_leave_each_element_to_one_trainer(
            counts in prop::collection::vec(0_u64..4, 1..30),
            taken in prop::collection::vec(0_usize..20, 1..5),
            later in 1_u64..5,
        ) {
            let step = taken.len() as u64;
            let elements = |split: u64| (0..counts[split as usize]).map(move |at| (split, at));
            let (mut read, mut places) = (Vec::new(), Vec::new());
            for (trainer, taken) in (0_u64..).zip(&taken) {
                let own = (trainer..counts.len() as u64).step_by(step as usize);
                let own: Vec<(u64, u64)> = own.flat_map(elements).collect();
                let taken = (*taken).min(own.len());
                read.extend_from_slice(&own[..taken]);
                let place = match own.get(taken) {
                    Some((split, 0)) => Place { split: *split, had: BTreeMap::new() },
                    Some((split, at)) => Place { split: *split, had: BTreeMap::from([(*split, *at)]) },
                    None => Place { split: counts.len() as u64 + trainer, had: BTreeMap::new() },
                };
                places.push(place);
            }
            let joined = Place::joined(&places);
            for trainer in 0..later {
                let first = joined.first_split(trainer, later);
                for split in (first..counts.len() as u64).step_by(later as usize) {
                    let had = joined.had.get(&split).copied().unwrap_or(0);
                    read.extend(elements(split).filter(|(_, at)| *at >= had));
                }
            }
            read.sort_unstable();
            let all: Vec<(u64, u64)> = (0..counts.len() as u64).flat_map(elements).collect();
            prop_assert_eq!(read, all);
        }
    }
}
