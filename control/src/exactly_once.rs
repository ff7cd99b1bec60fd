//! The settings of an exactly-once job, which delivers every element of its splits once and in one order.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

/// The settings of an exactly-once job: its seed, and the splits that it reads.
///
/// The job reads the splits `first`, `first + step`, `first + 2 * step`, and so on. The elements of a split
/// depend only on the dataset, the seed, the repetition and the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ExactlyOnce {
    /// The seed of all random draws of the job's pipeline.
    #[n(0)]
    pub seed: u64,
    /// The first split that the job reads.
    #[n(1)]
    pub first: u64,
    /// The distance between two splits that the job reads, at least 1: the number of trainers that divide
    /// the splits.
    #[n(2)]
    pub step: u64,
}

impl ExactlyOnce {
    /// Returns the settings of a job that reads all splits.
    pub fn whole(seed: u64) -> ExactlyOnce {
        ExactlyOnce {
            seed,
            first: 0,
            step: 1,
        }
    }

    /// Returns the index in the source of the split with this index in the job. The result saturates.
    pub fn source_index(&self, index: u64) -> u64 {
        self.first.saturating_add(index.saturating_mul(self.step))
    }
}

impl fmt::Display for ExactlyOnce {
    /// Writes the settings for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExactlyOnce { seed, first, step } = self;
        write!(f, "seed {seed}, splits from {first} in steps of {step}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::DatasetId;
    use crate::job::{JobParameters, Policy};

    #[test]
    fn records_without_the_settings_decode() {
        let parameters = JobParameters::new(DatasetId::new("data").unwrap(), Policy::Dynamic);
        let bytes = minicbor::to_vec(&parameters).unwrap();
        let JobParameters {
            dataset,
            policy,
            target_workers,
            num_consumers,
            cross_trainer_cache,
            abandoned,
            in_order,
            exactly_once: None,
        } = parameters.clone()
        else {
            panic!("{parameters:?}")
        };
        let old = (
            dataset,
            policy,
            target_workers,
            num_consumers,
            cross_trainer_cache,
            abandoned,
            in_order,
        );
        let old = minicbor::to_vec(old).unwrap();
        assert_eq!(old, bytes, "a job without the settings is stored as before");
        assert_eq!(minicbor::decode::<JobParameters>(&old).unwrap(), parameters);
    }

    #[test]
    fn jobs_with_other_settings_differ() {
        let plain = JobParameters::new(DatasetId::new("data").unwrap(), Policy::Dynamic);
        let exact = JobParameters {
            exactly_once: Some(ExactlyOnce::whole(7)),
            ..plain.clone()
        };
        let found = plain.differences(&exact);
        assert_eq!(
            found,
            ["exactly_once is none, not seed 7, splits from 0 in steps of 1"]
        );
    }

    #[test]
    fn absurd_indices_saturate() {
        let once = ExactlyOnce {
            seed: 0,
            first: 3,
            step: u64::MAX,
        };
        assert_eq!(once.source_index(0), 3);
        assert_eq!(once.source_index(9), u64::MAX);
    }
}
