//! The operation `chunks`, which yields the paths of the chunks of a saved dataset, also while the dataset is
//! being saved.

mod definition;
pub(crate) mod exec;
mod layout;
#[cfg(test)]
mod tests;

pub use definition::Chunks;
#[cfg(any(test, feature = "saved"))]
pub(crate) use layout::chunk_path;
#[cfg(feature = "saved")]
pub(crate) use layout::uncommitted;
