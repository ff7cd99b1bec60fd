//! Tools for the rules of the source tree, which read files, sources and manifests. The rules and their
//! tables are in `tidy.rs`; these tools do not know this project's crates.
//!
//! - [`comments`]: the language of comments
//! - [`corpora`]: fuzz targets and their inputs
//! - [`cycles`]: files that import each other in a circle
//! - [`lexer`]: the separation of code, comments and literals
//! - [`tree`]: the files of the project, and findings
//! - [`shape`]: lengths of files and functions, first lines, tables of contents, and attributes
//! - [`names`]: the names of tests
//! - [`paths`]: the paths that a source file names
//! - [`manifest`]: the dependencies between crates
//! - [`words`]: forbidden words
//! - [`protocol`]: numbered protocol rules and their citations

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
