//! Tests of expressions against naive code, of their errors, and of predicates.

mod arithmetic;
mod arrays;
mod predicates;
mod refusals;
mod shapes;
mod text;
