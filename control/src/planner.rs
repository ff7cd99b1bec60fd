//! The planner: the facts of datasets, and the division of their sources into splits.
//!
//! A definition is opaque bytes in the control plane. The root library implements [`Planner`] with the
//! pipeline's analysis.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::ops::Range;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::job::Policy;
use crate::split::PayloadVersion;

/// A reader of definitions for the dispatcher. Called from threads that may block.
pub trait Planner: Send + Sync {
    /// Returns the facts of a definition. Does no I/O.
    ///
    /// # Errors
    ///
    /// The definition cannot be read, or names a function that is not registered.
    fn facts(&self, definition: &[u8]) -> Result<DatasetFacts, PlanError>;

    /// Divides the sources of pass `repetition` over the dataset into splits, in the order in which the
    /// dispatcher leases them. Lists files where necessary. May do I/O.
    ///
    /// # Errors
    /// A listing fails, or a listing is empty.
    fn plan_splits(&self, definition: &[u8], repetition: u64) -> Result<SplitPlan, PlanError>;
}

/// The properties of a dataset, computed once at its registration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetFacts {
    /// The element specification, as opaque bytes.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub spec: Vec<u8>,
    /// The number of elements in the dataset.
    #[n(1)]
    pub cardinality: Cardinality,
    /// Success if the dataset can be divided into splits; otherwise the reason.
    #[n(2)]
    pub splittable: Result<(), String>,
    /// Success if the dataset's elements stay aligned with source positions; otherwise the reason.
    #[n(3)]
    pub aligned: Result<(), String>,
    /// The reason for which the dataset cannot be divided by files; `None` if it can.
    #[n(4)]
    pub not_by_files: Option<String>,
    /// True if the definition has a shard hint, so that only the policy `hint` can read the dataset.
    #[cbor(n(5), default)]
    pub has_shard_hint: bool,
    /// The compression of the dataset's elements on a network, as text for the data plane. `None` uses each
    /// worker's own setting.
    #[cbor(n(6), default)]
    pub compression: Option<String>,
}

/// The number of elements of a dataset that one task reads whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Cardinality {
    /// The dataset never ends.
    #[n(0)]
    Infinite,
    /// The number of elements cannot be determined.
    #[n(1)]
    Unknown,
    /// The exact number of elements.
    #[n(2)]
    Finite(#[n(0)] u64),
}

impl Cardinality {
    /// Returns the number of elements that a job yields from all workers together, for a dataset with this
    /// cardinality. The number is unknown in most cases, because it depends on the workers, on incomplete
    /// batches, and on shards. The rules are those of the tf.data service, except that a coordinated read
    /// ends with its dataset.
    #[must_use]
    pub fn distributed(self, policy: Policy, num_consumers: Option<u32>) -> Cardinality {
        match self {
            Cardinality::Finite(0) => self,
            Cardinality::Infinite if num_consumers.is_some() => self,
            Cardinality::Infinite => match policy {
                Policy::Off | Policy::Dynamic | Policy::Data => self,
                Policy::File | Policy::FileOrData | Policy::Hint => Cardinality::Unknown,
            },
            Cardinality::Finite(_) | Cardinality::Unknown => Cardinality::Unknown,
        }
    }
}

impl fmt::Display for Cardinality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cardinality::Infinite => f.write_str("infinite"),
            Cardinality::Unknown => f.write_str("unknown"),
            Cardinality::Finite(elements) => elements.fmt(f),
        }
    }
}

/// The plan by which the splits of a dataset's sources are leased in one iteration.
///
/// The plan of an exactly-once job holds the selected splits only (C16.3). Split `i` of the plan is then
/// split `first + i * step` of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SplitPlan {
    /// The plan of each source, in depth-first order.
    #[n(0)]
    pub sources: Vec<SourcePlan>,
    /// A random number that all tasks of the iteration receive, from which they derive their common random
    /// choices.
    #[n(1)]
    #[cbor(default)]
    pub seed: u64,
}

impl SplitPlan {
    /// Returns the plan without file versions and digests, for jobs that do not check them.
    #[must_use]
    pub fn without_versions(self) -> SplitPlan {
        let sources = self.sources.into_iter();
        SplitPlan {
            sources: sources.map(SourcePlan::without_versions).collect(),
            seed: self.seed,
        }
    }

    /// Returns the plan of the splits `first`, `first + step`, `first + 2 * step`, and so on, of each
    /// source. These splits get the indices 0, 1, 2, and so on.
    #[must_use]
    pub fn selected(self, first: u64, step: u64) -> SplitPlan {
        let sources = self.sources.into_iter();
        SplitPlan {
            sources: sources.map(|source| source.selected(first, step)).collect(),
            seed: self.seed,
        }
    }
}

/// The plan by which the splits of one source are leased.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SourcePlan {
    /// A number of splits that need no data besides their index.
    #[n(0)]
    Counted {
        /// The number of splits.
        #[n(0)]
        splits: u64,
    },
    /// One split for each item, with the item as its payload.
    #[n(1)]
    Listed {
        /// The payloads, in order.
        #[n(0)]
        items: Vec<ByteVec>,
        /// The version of each payload's file. Empty if the versions are unknown, or if the job does not need
        /// them.
        #[cbor(n(1), default)]
        versions: Vec<PayloadVersion>,
        /// The digest of all files of the source, which other files change. `None` if it is unknown, or if
        /// the job does not need it.
        #[n(2)]
        files: Option<u64>,
    },
}

impl SourcePlan {
    /// Returns the plan of a listed source, whose files have unknown versions.
    pub fn listed(items: impl IntoIterator<Item = Vec<u8>>) -> SourcePlan {
        SourcePlan::Listed {
            items: items.into_iter().map(ByteVec::from).collect(),
            versions: Vec::new(),
            files: None,
        }
    }

    /// Returns the plan of a listed source, whose files have these versions, and the digest `files` together.
    pub fn listed_in_versions(
        items: impl IntoIterator<Item = (Vec<u8>, [u8; 16])>,
        files: Option<u64>,
    ) -> SourcePlan {
        let items = items.into_iter();
        let (items, versions) = items
            .map(|(item, version)| (ByteVec::from(item), PayloadVersion::from(version)))
            .unzip();
        SourcePlan::Listed {
            items,
            versions,
            files,
        }
    }

    /// Returns the plan without the versions and the digest of files, which only exactly-once jobs need.
    fn without_versions(self) -> SourcePlan {
        match self {
            SourcePlan::Counted { .. } => self,
            SourcePlan::Listed { items, .. } => SourcePlan::Listed {
                items,
                versions: Vec::new(),
                files: None,
            },
        }
    }

    /// Returns the plan of the splits `first`, `first + step`, and so on.
    fn selected(self, first: u64, step: u64) -> SourcePlan {
        match self {
            SourcePlan::Counted { splits } => SourcePlan::Counted {
                splits: splits.saturating_sub(first).div_ceil(step.max(1)),
            },
            SourcePlan::Listed {
                items,
                versions,
                files,
            } => {
                let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                let (first, step) = (place(first), place(step.max(1)));
                SourcePlan::Listed {
                    items: items.into_iter().skip(first).step_by(step).collect(),
                    versions: versions.into_iter().skip(first).step_by(step).collect(),
                    files,
                }
            }
        }
    }

    /// Returns the number of splits in one repetition.
    pub fn splits(&self) -> u64 {
        match self {
            SourcePlan::Counted { splits } => *splits,
            SourcePlan::Listed { items, .. } => items.len() as u64,
        }
    }

    /// Returns whether each split has a payload.
    pub(crate) fn has_payloads(&self) -> bool {
        matches!(self, SourcePlan::Listed { .. })
    }

    /// Returns the payload of a split, which is empty for counted sources.
    pub(crate) fn payload(&self, index: u64) -> &[u8] {
        match self {
            SourcePlan::Counted { .. } => &[],
            SourcePlan::Listed { items, .. } => usize::try_from(index)
                .ok()
                .and_then(|index| items.get(index))
                .map_or(&[], |item| item.as_slice()),
        }
    }

    /// Returns the digest of the files of the source, if it is known.
    pub(crate) fn files(&self) -> Option<u64> {
        match self {
            SourcePlan::Counted { .. } => None,
            SourcePlan::Listed { files, .. } => *files,
        }
    }

    /// Returns the versions of the files of consecutive splits; nothing if the plan has no versions.
    pub(crate) fn versions(&self, splits: Range<u64>) -> &[PayloadVersion] {
        let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            SourcePlan::Counted { .. } => &[],
            SourcePlan::Listed { versions, .. } => versions
                .get(place(splits.start)..place(splits.end))
                .unwrap_or_default(),
        }
    }
}

/// The reason for which the planner has no facts or no plan for a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The definition itself is invalid.
    #[error("{0}")]
    Definition(String),
    /// The source is invalid: a file is missing, or a pattern matches no file.
    #[error("{0}")]
    Source(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that both kinds of plans select the same splits (C16.3).
    #[test]
    fn a_selection_takes_every_nth_split() {
        for (total, first, step, expected) in [
            (10_u8, 0, 1, (0..10).collect::<Vec<u8>>()),
            (10, 2, 3, vec![2, 5, 8]),
            (11, 2, 3, vec![2, 5, 8]),
            (12, 2, 3, vec![2, 5, 8, 11]),
            (10, 9, 4, vec![9]),
            (10, 10, 4, vec![]),
            (0, 0, 1, vec![]),
            (10, u64::MAX, u64::MAX, vec![]),
            (10, 4, u64::MAX, vec![4]),
            (3, 0, 0, vec![0, 1, 2]),
        ] {
            let splits = u64::from(total);
            let plan = SplitPlan {
                sources: vec![
                    SourcePlan::Counted { splits },
                    SourcePlan::listed((0..total).map(|item| vec![item])),
                    SourcePlan::listed_in_versions((0..total).map(|item| (vec![item], [item; 16])), Some(6)),
                ],
                seed: 5,
            };
            let selected = SplitPlan {
                sources: vec![
                    SourcePlan::Counted {
                        splits: expected.len() as u64,
                    },
                    SourcePlan::listed(expected.iter().map(|item| vec![*item])),
                    SourcePlan::listed_in_versions(
                        expected.iter().map(|item| (vec![*item], [*item; 16])),
                        Some(6),
                    ),
                ],
                seed: 5,
            };
            assert_eq!(plan.selected(first, step), selected, "{total} {first} {step}");
        }
    }

    #[test]
    fn only_extreme_cardinalities_survive_distribution() {
        let policies = [
            Policy::Off,
            Policy::Dynamic,
            Policy::File,
            Policy::Data,
            Policy::FileOrData,
            Policy::Hint,
        ];
        for policy in policies {
            let of = |cardinality: Cardinality| cardinality.distributed(policy, None);
            assert_eq!(of(Cardinality::Finite(0)), Cardinality::Finite(0), "{policy}");
            assert_eq!(of(Cardinality::Finite(10)), Cardinality::Unknown, "{policy}");
            assert_eq!(of(Cardinality::Unknown), Cardinality::Unknown, "{policy}");
            let is_whole = matches!(policy, Policy::Off | Policy::Dynamic | Policy::Data);
            assert_eq!(
                of(Cardinality::Infinite) == Cardinality::Infinite,
                is_whole,
                "{policy}"
            );
            for (any, in_step) in [
                (Cardinality::Finite(0), Cardinality::Finite(0)),
                (Cardinality::Finite(10), Cardinality::Unknown),
                (Cardinality::Unknown, Cardinality::Unknown),
                (Cardinality::Infinite, Cardinality::Infinite),
            ] {
                assert_eq!(any.distributed(policy, Some(2)), in_step, "{policy}");
            }
        }
    }
}
