//! The operation `write_chunk`, which writes its input to one file and yields the size of the file.

mod definition;
pub(crate) mod exec;
#[cfg(test)]
#[cfg(feature = "saved")]
mod tests;
#[cfg(feature = "saved")]
pub(crate) mod writing;

pub use definition::WriteChunk;
