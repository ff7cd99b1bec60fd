//! Parameters of the operations over several inputs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// Parameters of `zip`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Zip {
    /// What each input is called in the dict that an element is; absent = elements are tuples.
    #[n(0)]
    pub names: Option<Vec<String>>,
}

/// Parameters of `sample`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Sample {
    /// How often each input is drawn, in relation to the others: finite and above 0, one an input.
    #[n(0)]
    pub weights: Vec<f64>,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether it ends when an input that has ended is drawn, or goes on with the others.
    #[n(2)]
    pub stop_on_empty: bool,
    /// Whether every pass and epoch draws alike.
    #[n(3)]
    #[cbor(default)]
    pub fixed: bool,
}

/// Parameters of `choose` beside its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Choose {
    /// Whether it ends when an input that has ended is chosen, or passes over that choice.
    #[n(0)]
    pub stop_on_empty: bool,
}
