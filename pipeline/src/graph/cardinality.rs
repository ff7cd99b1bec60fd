//! The number of elements of a dataset, and the effect of operations on this number.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

/// The number of elements of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// The dataset never ends.
    Infinite,
    /// The number cannot be inferred from the graph.
    Unknown,
    /// The dataset has exactly this number of elements.
    Finite(u64),
}

/// Converts the count and the flag that a graph declares into a cardinality.
pub(crate) fn declared(count: Option<u64>, infinite: bool) -> Cardinality {
    match (infinite, count) {
        (true, _) => Cardinality::Infinite,
        (false, Some(count)) => Cardinality::Finite(count),
        (false, None) => Cardinality::Unknown,
    }
}

/// Returns the number of elements in `count` passes over a dataset of `input` elements. `None` means passes
/// without end.
pub(crate) fn repeated(count: Option<u64>, input: Cardinality) -> Cardinality {
    match (count, input) {
        (Some(0), _) | (_, Cardinality::Finite(0)) => Cardinality::Finite(0),
        (None, _) => Cardinality::Infinite,
        (Some(count), input) => multiplied(input, Cardinality::Finite(count)),
    }
}

/// Returns the number of batches of `size` elements that `input` elements make.
pub(crate) fn batched(input: Cardinality, size: u64, drop_remainder: bool) -> Cardinality {
    match input {
        Cardinality::Finite(count) if drop_remainder => Cardinality::Finite(count / size),
        Cardinality::Finite(count) => Cardinality::Finite(count.div_ceil(size)),
        endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
    }
}

/// Returns the sum of two cardinalities. The elements after an infinite dataset are never reached.
pub(crate) fn added(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Infinite, _) | (_, Infinite) => Infinite,
        (Finite(one), Finite(other)) => one.checked_add(other).map_or(Unknown, Finite),
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// Returns the cardinality after an operation that may drop or add any number of elements.
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
        // An infinite sequence of empty datasets never ends, but yields no element either.
        (Infinite, Finite(0)) | (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// Returns the number of rows of every element, if the spec fixes that number.
pub(crate) fn rows(spec: &ElementSpec) -> Option<u64> {
    spec.components().first()?.dims()?.first().copied().flatten()
}
