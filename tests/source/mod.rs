//! Tools of the house rules: reading the tree, the sources and the manifests. The rules themselves, with
//! their tables, are in `tidy.rs`; nothing here knows this project's crates.
//!
//! - [`comments`]: how comments begin, how long their clauses are, retired terms
//! - [`corpora`]: fuzz targets and their inputs
//! - [`cycles`]: files that import each other in a circle
//! - [`lexer`]: code, comments and literals told apart
//! - [`tree`]: the project's files, and findings
//! - [`shape`]: lengths, openings, tables of contents, attributes
//! - [`names`]: names of tests
//! - [`paths`]: which paths a source file names
//! - [`manifest`]: which crates depend on which
//! - [`words`]: words that stand in no file
//! - [`protocol`]: numbered rules and their citations

pub(crate) mod comments;
pub(crate) mod corpora;
pub(crate) mod cycles;
pub(crate) mod lexer;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod paths;
pub(crate) mod protocol;
pub(crate) mod shape;
pub(crate) mod tree;
pub(crate) mod words;
