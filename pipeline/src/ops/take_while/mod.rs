//! `take_while`: the elements before the first for which a predicate does not hold.

mod definition;
pub(crate) mod exec;

pub use definition::TakeWhile;
