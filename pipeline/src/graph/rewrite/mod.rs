//! Changes of a graph that never change what it yields: which elements, in which order, drawn how, and after which errors.
//! What is executed together is `exec`'s business, but for whether maps are.
//!
//! - [`apply`]: applies the rules, each of which looks at one operation and what it reads;
//! - [`noop`]: operations that do nothing;
//! - [`counts`]: counts of counts;
//! - [`casts`]: casts that can wait;
//! - [`prefetches`]: buffers of buffers;
//! - [`projection`]: columns that nobody looks at;
//! - [`Rewrites`]: which of them are allowed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod apply;
mod casts;
mod counts;
mod noop;
mod prefetches;
mod projection;
mod switches;

pub use switches::Rewrites;
