//! Parameters of the operations that pass on what comes in, some of it or several elements as one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// Parameters of `batch` and `ragged_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Batch {
    /// Elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether a last batch of fewer elements is dropped.
    #[n(1)]
    pub drop_remainder: bool,
}

/// Parameters of `shuffle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Shuffle {
    /// Elements held to draw from, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether every pass and epoch draws alike.
    #[n(2)]
    #[cbor(default)]
    pub fixed: bool,
}

/// Parameters of `repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Repeat {
    /// How many passes; absent = without end.
    #[n(0)]
    pub count: Option<u64>,
}

/// Parameters of `take` and `skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Count {
    /// How many elements.
    #[n(0)]
    pub count: u64,
}

/// Parameters of `shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Shard {
    /// How many shards there are, at least 1; absent = a hint: whoever runs the dataset on several workers puts their
    /// number and the worker's here.
    #[n(0)]
    pub count: Option<u64>,
    /// Which of them is kept, from 0.
    #[n(1)]
    pub index: u64,
    /// Whether a shard that has elements demands that every other one has some, and fails otherwise.
    #[n(2)]
    pub require_non_empty: bool,
}

/// Parameters of `enumerate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Enumerate {
    /// The number of the first element of every pass.
    #[n(0)]
    pub start: i64,
}

/// Parameters of `prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Prefetch {
    /// Elements buffered ahead, at least 1; the executor buffers at most 4096.
    #[n(0)]
    pub buffer: u64,
}
