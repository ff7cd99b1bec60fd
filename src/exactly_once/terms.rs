//! The terms on which a trainer reads an exactly-once job. Does not know the dataset.

use millstream_control::{ExactlyOnce, PoisonLimits};
use minicbor::{Decode, Encode};

use super::place::Place;
use super::quarantine::QuarantineTerms;

/// The terms of one trainer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ExactTerms {
    /// The seed of operations that have no seed of their own.
    #[n(0)]
    pub seed: u64,
    /// The number of this trainer, from 0.
    #[n(1)]
    pub trainer: u64,
    /// The number of trainers that divide the dataset, at least 1.
    #[n(2)]
    pub trainers: u64,
    /// The position at which the first pass begins. Later passes begin at their start.
    #[n(3)]
    pub place: Place,
    /// Whether each element of the dataset arrives with its numbers and the position after it, which stand
    /// before it as a vector of bytes. The bytes are `u64` numbers in little-endian order:
    ///
    /// - the element's split, and its position among the elements of the split;
    /// - the digest of the job's files, or 0 without files;
    /// - the number of quarantined elements of this split and of unfinished splits, and the split and the id
    ///   of each of them;
    /// - the first unfinished split, the distance of splits, the number of words, and the words, which have
    ///   one bit for each finished split;
    /// - for each begun split, the split and the number of its delivered elements.
    #[n(4)]
    pub placed: bool,
    /// The limits on splits that end their workers.
    #[cbor(n(5), default)]
    pub poison: PoisonLimits,
    /// Whether the trainer takes elements as they arrive. Otherwise the order is that of the splits.
    #[cbor(n(6), default)]
    pub any_order: bool,
    /// The digest of the files among which `place` was reached. `None` at the start of an epoch, and for
    /// datasets without files. The dispatcher refuses a job whose files have another digest.
    #[n(7)]
    pub files: Option<u64>,
    /// The limits on elements at which an operation fails, and the elements that are left out. `None` lets
    /// the first failure end the pass.
    #[n(8)]
    pub quarantine: Option<QuarantineTerms>,
}

impl ExactTerms {
    /// Returns the terms of the only trainer, which begins at the start of an epoch.
    pub fn new(seed: u64) -> ExactTerms {
        ExactTerms {
            seed,
            trainer: 0,
            trainers: 1,
            place: Place::default(),
            placed: false,
            poison: PoisonLimits::default(),
            any_order: false,
            files: None,
            quarantine: None,
        }
    }

    /// Returns the terms for the dispatcher, of a pass that begins at `place`.
    pub(crate) fn of_job(&self, place: &Place) -> ExactlyOnce {
        ExactlyOnce {
            seed: self.seed,
            first: place.first_split(self.trainer, self.trainers),
            step: self.trainers,
            poison: self.poison,
            files: self.files,
            quarantine: self.quarantine.as_ref().map(|terms| terms.elements.clone()),
        }
    }
}
