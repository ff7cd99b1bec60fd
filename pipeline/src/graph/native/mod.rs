//! The functions of a `map` that every worker has: their parameters, and what they yield. How they are called is
//! `exec`'s. Images have a family of their own.
//!
//! One more of them is a file here, with its parameters and an implementation of [`NativeFunction`], a line in
//! [`family`], and a file in `exec` with its call.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod compute;
mod family;
mod parse_int;
mod replaced;
mod select;

pub use compute::{Compute, Named, Outputs};
pub use family::Native;
pub use parse_int::ParseInt;
pub use select::{Select, Selected};
