//! The integration tests: a table of contents.
