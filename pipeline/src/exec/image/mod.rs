//! The calls of functions on pictures: the result that each makes of a component, and the moment of the
//! computation. [`crate::image`] computes the pixels.
//!
//! Most results are deferred: they are computed straight into their destination.

mod area;
mod calls;
mod decode;
mod deferred;
mod open;
mod part;
mod picture;

pub(crate) use open::{call, fused};
