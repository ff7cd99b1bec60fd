//! `options`: how everything below is executed.

mod definition;
pub(crate) mod exec;
