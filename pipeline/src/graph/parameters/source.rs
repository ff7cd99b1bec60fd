//! Parameters of the operations that read nothing: sources of a graph.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::graph::constant::Constant;
use crate::graph::params::{Params, SpecField};

/// Parameters of `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Range {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The bound that is not reached.
    #[n(1)]
    pub stop: i64,
    /// The difference of neighbours; never 0.
    #[n(2)]
    pub step: i64,
}

impl Range {
    /// How many values there are.
    pub fn len(&self) -> u64 {
        let (low, high) = if self.step >= 0 {
            (self.start, self.stop)
        } else {
            (self.stop, self.start)
        };
        if self.step == 0 || low >= high {
            return 0;
        }
        high.abs_diff(low).div_ceil(self.step.unsigned_abs())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `position`, which is below [`Range::len`].
    pub fn value(&self, position: u64) -> i64 {
        // In range by construction; wrapping arithmetic computes it without an overflow in between.
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

/// Parameters of `counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Counter {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The difference of neighbours. Beyond the largest value follows the smallest.
    #[n(1)]
    pub step: i64,
}

impl Counter {
    /// The value at `position`.
    pub fn value(&self, position: u64) -> i64 {
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

/// Parameters of `random`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Random {
    /// The seed; without one every task draws its own.
    #[n(0)]
    pub seed: Option<u64>,
    /// Whether every pass and epoch draws alike.
    #[n(1)]
    #[cbor(default)]
    pub fixed: bool,
}

/// Parameters of `tensors`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Tensors {
    /// The element.
    #[n(0)]
    pub constant: Constant,
}

/// Parameters of `tensor_slices`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct TensorSlices {
    /// The tensors that are sliced along their leading dimension, which all share.
    #[n(0)]
    pub constant: Constant,
}

/// Parameters of `files`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Files {
    /// The glob pattern.
    #[n(0)]
    pub pattern: String,
    /// Whether the listing is read in a shuffled order rather than sorted.
    #[n(1)]
    pub shuffle: bool,
    /// The seed of that order; without one every task draws its own, or every iteration where the files are
    /// dealt out in splits.
    #[n(2)]
    pub seed: Option<u64>,
    /// Whether what matches are indexes, and the files are the shards that they list; absent = no.
    #[n(3)]
    pub are_indexes: Option<bool>,
}

/// Parameters of `source`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredSource {
    /// The registered name.
    #[n(0)]
    pub name: String,
    /// What its factory receives.
    #[n(1)]
    pub params: Params,
    /// The signature, where it was declared or resolved; else the registry is asked.
    #[n(2)]
    pub declared: Option<SourceDeclaration>,
}

/// A registered source's signature written into the graph, so that who has no such source can still analyse it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct SourceDeclaration {
    /// What it yields.
    #[n(0)]
    pub spec: SpecField,
    /// How many elements: absent = unknown.
    #[n(1)]
    pub count: Option<u64>,
    /// Whether it never ends.
    #[n(2)]
    pub infinite: bool,
    /// Whether it can be opened at any range of positions, hence split.
    #[n(3)]
    pub indexable: bool,
}

/// Parameters of `service`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct ServiceReader {
    /// What the reader's factory receives.
    #[n(0)]
    pub params: Params,
    /// What the service yields.
    #[n(1)]
    pub spec: SpecField,
    /// How many elements: absent = unknown.
    #[n(2)]
    pub count: Option<u64>,
    /// Whether it never ends.
    #[n(3)]
    pub infinite: bool,
}
