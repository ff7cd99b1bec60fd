//! Rewrites of a graph before it is executed. The rewrites with a switch never change the elements, their
//! order, random draws or errors. The executor decides which operations run together, except for neighbouring
//! maps.
//!
//! - [`apply`]: applies the rules, each of which looks at one operation and its input.
//! - [`full_shuffles`]: shuffles that permute the positions of a source.
//! - [`edit`]: the change that a rule requests.
//! - [`noop`]: removes operations without effect.
//! - [`counts`]: merges `take` or `skip` operations in a row.
//! - [`casts`]: moves casts past operations that drop items.
//! - [`prefetches`]: merges `prefetch` operations in a row.
//! - [`projection`]: skips columns that no operation uses.
//! - [`fusion`]: the operations that are executed together.
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
