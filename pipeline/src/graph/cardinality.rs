//! The number of elements of a dataset, and the effect of operations on it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

/// The number of elements of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// The dataset never ends.
    Infinite,
    /// The graph does not tell.
    Unknown,
    /// Exactly so many.
    Finite(u64),
}

/// A cardinality as graphs declare it.
pub(crate) fn declared(count: Option<u64>, infinite: bool) -> Cardinality {
    match (infinite, count) {
        (true, _) => Cardinality::Infinite,
        (false, Some(count)) => Cardinality::Finite(count),
        (false, None) => Cardinality::Unknown,
    }
}

/// Returns how many elements so many passes have; without end for `None`.
pub(crate) fn repeated(count: Option<u64>, input: Cardinality) -> Cardinality {
    match (count, input) {
        (Some(0), _) | (_, Cardinality::Finite(0)) => Cardinality::Finite(0),
        (None, _) => Cardinality::Infinite,
        (Some(count), input) => multiplied(input, Cardinality::Finite(count)),
    }
}

/// Returns how many batches so many elements make.
pub(crate) fn batched(input: Cardinality, size: u64, drop_remainder: bool) -> Cardinality {
    match input {
        Cardinality::Finite(count) if drop_remainder => Cardinality::Finite(count / size),
        Cardinality::Finite(count) => Cardinality::Finite(count.div_ceil(size)),
        endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
    }
}

/// Both together. What comes after an endless one is never reached.
pub(crate) fn added(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Infinite, _) | (_, Infinite) => Infinite,
        (Finite(one), Finite(other)) => one.checked_add(other).map_or(Unknown, Finite),
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// Returns the cardinality when any number of elements may be dropped or added.
pub(crate) fn thinned(input: Cardinality) -> Cardinality {
    match input {
        Cardinality::Finite(0) => Cardinality::Finite(0),
        Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown => Cardinality::Unknown,
    }
}

pub(crate) fn multiplied(outer: Cardinality, inner: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (outer, inner) {
        (Finite(0), _) | (Finite(_), Finite(0)) => Finite(0),
        (Finite(outer), Finite(inner)) => outer.checked_mul(inner).map_or(Unknown, Finite),
        (Infinite, Finite(1..)) | (Finite(1..) | Infinite, Infinite) => Infinite,
        // Endlessly many empty datasets end no more than they yield.
        (Infinite, Finite(0)) | (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// Rows of every element, when the spec fixes them.
pub(crate) fn rows(spec: &ElementSpec) -> Option<u64> {
    spec.components().first()?.dims()?.first().copied().flatten()
}
