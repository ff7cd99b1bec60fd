//! The ledger of a simulated epoch: what each trainer must receive, and what it received.
//!
//! Computes the plan from the dataset alone. Does not know positions, which the plan checks.

use std::collections::BTreeSet;

use super::dataset::SimDataset;

/// An element: its split, its position in the split, and its value.
pub(super) type Entry = (u64, u64, u64);

/// The plan of each trainer, and the elements that the surviving lineage of trainers has.
#[derive(Debug)]
pub(super) struct Ledger {
    /// All elements of the epoch, in order.
    all: Vec<Entry>,
    /// The elements that groups before the present one have.
    had: BTreeSet<Entry>,
    /// The elements that each trainer must receive, in order.
    plans: Vec<Vec<Entry>>,
    /// The number of elements that each trainer has.
    handed: Vec<u64>,
    pub(super) tally: LedgerTally,
}

/// The elements of all epochs, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LedgerTally {
    pub(super) delivered: u64,
    /// The elements that trainers received again after they had resumed.
    pub(super) rewound: u64,
}

impl LedgerTally {
    pub(super) fn add(&mut self, other: &LedgerTally) {
        self.delivered += other.delivered;
        self.rewound += other.rewound;
    }
}

impl Ledger {
    pub(super) fn new() -> Ledger {
        Ledger {
            all: Vec::new(),
            had: BTreeSet::new(),
            plans: Vec::new(),
            handed: Vec::new(),
            tally: LedgerTally::default(),
        }
    }

    pub(super) fn begin_epoch(&mut self, dataset: &SimDataset, epoch: u64, trainers: u64) {
        let elements = |split: u64| {
            let values = (0..).zip(dataset.elements(epoch, split));
            values.map(move |(position, value)| (split, position, *value))
        };
        self.all = (0..dataset.splits).flat_map(elements).collect();
        self.had.clear();
        self.divide(trainers);
    }

    /// Divides the elements that are left among the trainers: trainer `r` of `n` gets every `n`-th split.
    fn divide(&mut self, trainers: u64) {
        let left = self.all.iter().filter(|entry| !self.had.contains(entry));
        self.plans = (0..trainers).map(|_| Vec::new()).collect();
        for entry in left {
            self.plans[(entry.0 % trainers) as usize].push(*entry);
        }
        self.handed = vec![0; trainers as usize];
    }

    /// Records an element that a trainer receives. Panics if it is not the next one of the trainer's plan.
    pub(super) fn deliver(&mut self, rank: u64, entry: Entry) {
        let (plan, handed) = (&self.plans[rank as usize], self.handed[rank as usize] as usize);
        let expected = plan.get(handed);
        if expected != Some(&entry) {
            let is_had = plan[..handed].contains(&entry) || self.had.contains(&entry);
            let kind = match is_had {
                true => "was delivered twice",
                false if plan[handed..].contains(&entry) => "was delivered before an earlier one",
                false => "is not in the plan",
            };
            panic!("trainer {rank}: element {entry:?} {kind}: expected {expected:?} after {handed} elements");
        }
        self.handed[rank as usize] += 1;
        self.tally.delivered += 1;
    }

    /// Returns the number of elements that a trainer has.
    pub(super) fn handed(&self, rank: u64) -> u64 {
        self.handed[rank as usize]
    }

    /// Returns the number of steps that all trainers have taken. Trainers that have everything are waited for
    /// by no other trainer.
    pub(super) fn steps(&self) -> u64 {
        let all = self.plans.iter().map(|plan| plan.len() as u64);
        let open = self
            .handed
            .iter()
            .zip(all)
            .filter(|(handed, all)| **handed < *all);
        let open = open.map(|(handed, _)| *handed).min();
        open.unwrap_or_else(|| self.handed.iter().copied().max().unwrap_or_default())
    }

    /// Lets a trainer continue after its first `handed` elements.
    pub(super) fn rewind(&mut self, rank: u64, handed: u64) {
        let now = &mut self.handed[rank as usize];
        self.tally.rewound += now.saturating_sub(handed);
        *now = (*now).min(handed);
    }

    /// Lets `trainers` trainers continue after the first elements of the present trainers.
    pub(super) fn resume(&mut self, handed: &[u64], trainers: u64) {
        for ((plan, upto), now) in self.plans.iter().zip(handed).zip(&self.handed) {
            self.had.extend(plan.iter().take(*upto as usize));
            self.tally.rewound += now.saturating_sub(*upto);
        }
        self.divide(trainers);
    }

    /// Checks that the trainers together have each element of the epoch once, in the epoch's order.
    pub(super) fn check_epoch(&self) {
        let present = self.plans.iter().zip(&self.handed);
        let present = present.flat_map(|(plan, handed)| plan.iter().take(*handed as usize));
        let mut merged: Vec<Entry> = self.had.iter().chain(present).copied().collect();
        merged.sort_unstable();
        let lost = self.all.iter().find(|entry| merged.binary_search(entry).is_err());
        assert_eq!(
            lost, None,
            "an element is lost: the trainers have ended without it"
        );
        assert_eq!(
            merged, self.all,
            "the trainers together have other elements than the epoch"
        );
    }
}
