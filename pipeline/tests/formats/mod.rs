//! Tests of formats whose files describe their columns, or whose columns are declared. The tests
//! compare the elements with the data that was written.

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
