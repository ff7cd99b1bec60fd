//! Tools that the tests of every crate share.
//!
//! Does not know any type of the product.

mod rounds;

pub use rounds::rounds;
