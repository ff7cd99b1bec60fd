//! `every`: the worked example of CONTRIBUTING.md. Tests alone compile it.

mod definition;
pub(crate) mod exec;
mod tests;
