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
    /// The elements that each trainer must receive, in the fixed order.
    plans: Vec<Vec<Entry>>,
    /// The elements that each trainer has, in the order in which it received them.
    handed: Vec<Vec<Entry>>,
    /// Whether a trainer may receive the elements of different splits in any order.
    is_any_order: bool,
    pub(super) tally: LedgerTally,
}

/// The elements of all epochs, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LedgerTally {
    pub(super) delivered: u64,
    /// The elements that trainers received before an earlier element of the plan.
    pub(super) ahead: u64,
    /// The elements that trainers received again after they had resumed.
    pub(super) rewound: u64,
}

impl LedgerTally {
    pub(super) fn add(&mut self, other: &LedgerTally) {
        self.delivered += other.delivered;
        self.ahead += other.ahead;
        self.rewound += other.rewound;
    }
}

impl Ledger {
    pub(super) fn new(is_any_order: bool) -> Ledger {
        Ledger {
            is_any_order,
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
        self.handed = (0..trainers).map(|_| Vec::new()).collect();
    }

    /// Records an element that a trainer receives. In a fixed order, it must be the next one of the trainer's
    /// plan. In any order, it must be the next one of its split. Panics for any other element.
    pub(super) fn deliver(&mut self, rank: u64, entry: Entry) {
        let (plan, handed) = (&self.plans[rank as usize], &self.handed[rank as usize]);
        let is_left = |planned: &&Entry| !handed.contains(planned);
        let (first, expected) = match self.is_any_order {
            true => {
                let mut of_split = plan.iter().filter(|planned| planned.0 == entry.0);
                (plan.iter().find(is_left), of_split.find(is_left))
            }
            false => (plan.get(handed.len()), plan.get(handed.len())),
        };
        if expected != Some(&entry) {
            let is_had = handed.contains(&entry) || self.had.contains(&entry);
            let kind = match is_had {
                true => "was delivered twice",
                false if plan.contains(&entry) => "was delivered before an earlier one",
                false => "is not in the plan",
            };
            let count = handed.len();
            panic!("trainer {rank}: element {entry:?} {kind}: expected {expected:?} after {count} elements");
        }
        self.tally.ahead += u64::from(first != Some(&entry));
        self.handed[rank as usize].push(entry);
        self.tally.delivered += 1;
    }

    /// Returns the number of elements that a trainer has.
    pub(super) fn handed(&self, rank: u64) -> u64 {
        self.handed[rank as usize].len() as u64
    }

    /// Returns the number of steps that all trainers have taken. Trainers that have everything are waited for
    /// by no other trainer.
    pub(super) fn steps(&self) -> u64 {
        let counts = || self.handed.iter().map(|handed| handed.len() as u64);
        let open = counts()
            .zip(&self.plans)
            .filter(|(handed, plan)| *handed < plan.len() as u64);
        let open = open.map(|(handed, _)| handed).min();
        open.unwrap_or_else(|| counts().max().unwrap_or_default())
    }

    /// Lets a trainer continue after its first `handed` elements.
    pub(super) fn rewind(&mut self, rank: u64, handed: u64) {
        let now = &mut self.handed[rank as usize];
        self.tally.rewound += (now.len() as u64).saturating_sub(handed);
        now.truncate(handed as usize);
    }

    /// Lets `trainers` trainers continue after the first elements of the present trainers.
    pub(super) fn resume(&mut self, handed: &[u64], trainers: u64) {
        // A computed position can lie after the elements of a trainer that has gone back. The plan then names
        // the elements before the position.
        let firsts = match self.is_any_order {
            true => &self.handed,
            false => &self.plans,
        };
        for ((first, upto), now) in firsts.iter().zip(handed).zip(&self.handed) {
            self.had.extend(first.iter().take(*upto as usize));
            self.tally.rewound += (now.len() as u64).saturating_sub(*upto);
        }
        self.divide(trainers);
    }

    /// Checks that the trainers together have each element of the epoch once, in the epoch's order.
    pub(super) fn check_epoch(&self) {
        let present = self.handed.iter().flatten();
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
