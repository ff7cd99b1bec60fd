//! What expressions compute, against naive code; what they are refused for; predicates.

mod arithmetic;
mod arrays;
mod predicates;
mod refusals;
mod shapes;
mod text;
