//! The operation `take_while`, which ends before the first element for which a predicate does not hold.

mod definition;
pub(crate) mod exec;

pub use definition::TakeWhile;
