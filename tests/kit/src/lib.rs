//! Tools that the tests of every crate share.
//!
//! Refuses to know any type of the product.

mod rounds;

pub use rounds::rounds;
