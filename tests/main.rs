//! The integration tests: a table of contents.
//!
//! - `tidy`: the rules of the house, checked on the tree itself; `source` reads the tree for it

mod source;
mod tidy;
