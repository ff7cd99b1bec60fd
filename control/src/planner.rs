//! The planner's view of datasets: facts, and the division of sources into splits. Control does not
//! understand definitions.
//!
//! A definition is opaque bytes here. The root library implements [`Planner`] with the pipeline's analysis.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::job::Policy;

/// Reads definitions for the dispatcher. Called from threads that may block.
pub trait Planner: Send + Sync {
    /// Returns the facts of a definition. Does no I/O.
    ///
    /// # Errors
    ///
    /// The definition cannot be read, or names a function that is not registered.
    fn facts(&self, definition: &[u8]) -> Result<DatasetFacts, PlanError>;

    /// Divides the sources in pass `repetition` over the dataset, in the order in which that pass deals them
    /// out. Lists files where they must be listed. May do I/O.
    ///
    /// # Errors
    /// A listing fails or finds nothing.
    fn plan_splits(&self, definition: &[u8], repetition: u64) -> Result<SplitPlan, PlanError>;
}

/// A dataset's properties, computed once at registration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetFacts {
    /// The element specification, opaque here.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub spec: Vec<u8>,
    /// The number of elements.
    #[n(1)]
    pub cardinality: Cardinality,
    /// Whether the dataset divides into splits; else the reason.
    #[n(2)]
    pub splittable: Result<(), String>,
    /// Whether its elements stay aligned with source positions; else the reason.
    #[n(3)]
    pub aligned: Result<(), String>,
    /// Why it cannot be divided by files; `None` if it can.
    #[n(4)]
    pub not_by_files: Option<String>,
    /// Whether the definition says where it is divided, so that only the policy `hint` can read it.
    #[cbor(n(5), default)]
    pub has_shard_hint: bool,
    /// The compression of its elements on a network, in the data plane's words, opaque here; `None` for each
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
    /// The number cannot be known.
    #[n(1)]
    Unknown,
    /// Exactly so many.
    #[n(2)]
    Finite(#[n(0)] u64),
}

impl Cardinality {
    /// Returns how many elements a job yields of a dataset of so many, from all workers together, as far as
    /// that can be told: how many workers there will be, what each of them makes of a last batch, and what a
    /// shard leaves of it, nobody knows. A coordinated read has no end. As the tf.data service has it.
    #[must_use]
    pub fn distributed(self, policy: Policy, num_consumers: Option<u32>) -> Cardinality {
        if num_consumers.is_some() {
            return Cardinality::Infinite;
        }
        match self {
            Cardinality::Finite(0) => self,
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

/// The plan by which the sources of a dataset are dealt out in one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SplitPlan {
    /// One per source, depth first.
    #[n(0)]
    pub sources: Vec<SourcePlan>,
    /// A random number that all tasks of the iteration are told: what they draw together follows from it.
    #[n(1)]
    #[cbor(default)]
    pub seed: u64,
}

/// The plan by which one source is dealt out.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SourcePlan {
    /// A number of splits that are known by their index alone.
    #[n(0)]
    Counted {
        /// The number of splits.
        #[n(0)]
        splits: u64,
    },
    /// One split per item, whose payload it is.
    #[n(1)]
    Listed {
        /// The payloads, in order.
        #[n(0)]
        items: Vec<ByteVec>,
    },
}

impl SourcePlan {
    /// A listed source.
    pub fn listed(items: impl IntoIterator<Item = Vec<u8>>) -> SourcePlan {
        SourcePlan::Listed {
            items: items.into_iter().map(ByteVec::from).collect(),
        }
    }

    /// Returns how many splits one repetition has.
    pub fn splits(&self) -> u64 {
        match self {
            SourcePlan::Counted { splits } => *splits,
            SourcePlan::Listed { items } => items.len() as u64,
        }
    }

    /// Returns whether something goes with each split.
    pub(crate) fn has_payloads(&self) -> bool {
        matches!(self, SourcePlan::Listed { .. })
    }

    /// Returns the payload of a split, which is empty for counted sources.
    pub(crate) fn payload(&self, index: u64) -> &[u8] {
        match self {
            SourcePlan::Counted { .. } => &[],
            SourcePlan::Listed { items } => usize::try_from(index)
                .ok()
                .and_then(|index| items.get(index))
                .map_or(&[], |item| item.as_slice()),
        }
    }
}

/// Why a definition gives no facts or no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The definition itself is at fault.
    #[error("{0}")]
    Definition(String),
    /// The source is at fault: a file is missing, or a pattern matches nothing.
    #[error("{0}")]
    Source(String),
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for any in [
                Cardinality::Finite(0),
                Cardinality::Finite(10),
                Cardinality::Unknown,
            ] {
                assert_eq!(any.distributed(policy, Some(2)), Cardinality::Infinite);
            }
        }
    }
}
