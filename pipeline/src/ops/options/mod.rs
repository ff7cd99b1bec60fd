//! The operation `options`, which configures how the operations below it are executed.

mod definition;
pub(crate) mod exec;
