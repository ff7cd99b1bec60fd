//! The functions of a `map` that every worker has: their parameters and the specs of their results. The calls
//! are implemented in `exec`. Functions of pictures have a module of their own, `image`.
//!
//! A new function is a file here with its parameters and an implementation of `NativeFunction`. The new
//! function also needs a line in [`family`], and a file in `exec` that implements its calls.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod compute;
mod csv_line;
mod example;
mod family;
mod feature;
pub(crate) mod function;
mod json;
mod parse_int;
mod replaced;
mod select;
mod split_ragged;
mod tokenise;

pub use compute::{Compute, Named, Outputs};
pub use csv_line::{CsvField, DecodeCsv};
pub use example::{ParseExample, ParseSequenceExample};
pub use family::Native;
pub use feature::{Feature, FeatureLayout};
pub use json::{JsonField, ParseJson};
pub use parse_int::ParseInt;
pub use select::{Select, Selected};
pub use split_ragged::SplitRagged;
pub use tokenise::{TOKENISER_BYTES_MAX, Tokenise, Tokeniser};
