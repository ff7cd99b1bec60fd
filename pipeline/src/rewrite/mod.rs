//! Changes of a graph before it is executed. Those that can be switched off never change its elements, their
//! order, draws or errors. What is executed together is `exec`'s business, but for whether maps are.
//!
//! - [`apply`]: applies the rules, each of which looks at one operation and what it reads;
//! - [`full_shuffles`]: shuffles that permute the positions of a source;
//! - [`edit`]: what a rule wants
//! - [`noop`]: operations that do nothing;
//! - [`counts`]: counts of counts;
//! - [`casts`]: casts that can wait;
//! - [`prefetches`]: buffers of buffers;
//! - [`projection`]: columns that nobody looks at;
//! - [`fusion`]: which operations are executed together
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod apply;
mod casts;
mod counts;
mod edit;
mod full_shuffles;
mod fusion;
mod noop;
mod prefetches;
mod projection;
