//! Tests of expressions: comparisons with naive code, errors, and predicates.

mod arithmetic;
mod arrays;
mod predicates;
mod refusals;
mod shapes;
mod text;
