//! Tools that the tests of every crate share.
//!
//! Does not know any type of the product.

mod chance;
mod rounds;

pub use chance::Chance;
pub use rounds::rounds;
