//! The settings of an exactly-once job, which delivers every element of its splits once and in one order.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

/// The settings of an exactly-once job: its seed, and the splits that it reads.
///
/// The job reads the splits `first`, `first + step`, `first + 2 * step`, and so on. The elements of a split
/// depend only on the dataset, the seed, the repetition and the split.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
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
    /// The limits on splits that end their workers.
    #[cbor(n(3), default)]
    pub poison: PoisonLimits,
    /// The digest of the files among which the job's first split has its number (C16.11). `None` if the job
    /// begins an epoch, or if the sources have no files.
    #[n(4)]
    pub files: Option<u64>,
    /// The elements that workers leave out, because an operation failed at them in earlier jobs of the epoch
    /// (C16.12). `Some`, also with an empty list, lets failures name their elements.
    #[n(5)]
    pub quarantine: Option<Vec<QuarantinedElement>>,
}

/// An element that the workers of an exactly-once job leave out (C16.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct QuarantinedElement {
    /// The number of the split in the source.
    #[n(0)]
    pub split: u64,
    /// The id of the element in its split, which also names the operation that failed.
    #[n(1)]
    pub id: u64,
}

/// The element of an exactly-once job at which an operation failed (C16.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FailedElement {
    /// The number of the split in the source.
    #[n(0)]
    pub split: u64,
    /// The id of the element in its split, which also names the operation.
    #[n(1)]
    pub id: u64,
    /// The number of elements that the split had yielded before the failure.
    #[n(2)]
    pub yielded: u64,
}

/// The limits on poison splits, whose workers die while they read them (C16.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct PoisonLimits {
    /// The number of dead workers after which a split is not leased again, from 2 to 16.
    #[n(0)]
    pub max_deaths: u32,
    /// The number of splits that the job may skip before it fails, at most 1024.
    #[n(1)]
    pub max_skips: u32,
}

impl Default for PoisonLimits {
    fn default() -> PoisonLimits {
        PoisonLimits {
            max_deaths: 3,
            max_skips: 0,
        }
    }
}

impl PoisonLimits {
    /// The values that `max_deaths` may have. A suspect must have been alone once, which takes two deaths.
    pub const DEATHS: std::ops::RangeInclusive<u32> = 2..=16;
    /// Maximum value of `max_skips`, because the dispatcher keeps the name of each skipped split.
    pub const SKIPS_MAX: u32 = 1024;

    /// Returns the number of deaths from which on a split is a suspect, so that tasks read it alone. One or
    /// two deaths may come from any split that the worker held.
    pub fn suspect_deaths(self) -> u32 {
        self.max_deaths.saturating_sub(1).min(2)
    }
}

impl ExactlyOnce {
    /// Returns the settings of a job that reads all splits.
    pub fn whole(seed: u64) -> ExactlyOnce {
        ExactlyOnce {
            seed,
            first: 0,
            step: 1,
            poison: PoisonLimits::default(),
            files: None,
            quarantine: None,
        }
    }

    /// Maximum number of elements that a job leaves out, because each task of the job receives their ids.
    pub const QUARANTINED_MAX: usize = 256;

    /// Returns the index in the source of the split with this index in the job. The result saturates.
    pub fn source_index(&self, index: u64) -> u64 {
        self.first.saturating_add(index.saturating_mul(self.step))
    }
}

impl fmt::Display for ExactlyOnce {
    /// Writes the settings for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExactlyOnce {
            seed,
            first,
            step,
            poison: PoisonLimits {
                max_deaths,
                max_skips,
            },
            files,
            quarantine,
        } = self;
        write!(
            f,
            "seed {seed}, splits from {first} in steps of {step}, at most {max_deaths} deaths and {max_skips} \
             skipped splits"
        )?;
        if let Some(files) = files {
            write!(f, ", files {files:016x}")?;
        }
        if let Some(elements) = quarantine {
            write!(f, ", {} quarantined elements", elements.len())?;
        }
        Ok(())
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
            [
                "exactly_once is none, not seed 7, splits from 0 in steps of 1, at most 3 deaths and 0 skipped splits"
            ]
        );
    }

    #[test]
    fn absurd_indices_saturate() {
        let once = ExactlyOnce {
            first: 3,
            step: u64::MAX,
            ..ExactlyOnce::whole(0)
        };
        assert_eq!(once.source_index(0), 3);
        assert_eq!(once.source_index(9), u64::MAX);
    }
}
