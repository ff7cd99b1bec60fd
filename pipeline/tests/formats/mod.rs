//! Formats whose files say what is in them, or whose columns are declared, held against what was written into
//! them.

#[cfg(feature = "csv")]
mod csv;
mod image_folder;
#[cfg(feature = "arrow")]
mod in_part;
#[cfg(feature = "json")]
mod json_lines;
#[cfg(feature = "mds")]
mod mds;
#[cfg(feature = "numpy")]
mod numpy;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "arrow")]
mod tables;
#[cfg(all(feature = "records", feature = "webdataset"))]
mod writers;
