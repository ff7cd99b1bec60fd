//! The operation `cache`, which yields the elements of the first pass in every pass.

mod definition;
pub(crate) mod exec;
#[cfg(feature = "saved")]
pub(crate) mod files;

pub(crate) use definition::check_kept_place;
pub use definition::{CACHE_BYTES_DEFAULT, Cache};
