//! The parameters of all file formats, one format a file. The operation `read` reads files of every format.
//! The decoding of the files' bytes is in `exec::format`.
//!
//! - [`Format`]: the list of formats, with the answers that the graph asks of each format.
//! - [`TfRecord`], [`FixedLength`]: records, with their [`Compression`].
//! - [`WebDataset`]: tar shards; [`Mds`]: MosaicML shards; [`ImageFolder`]: files in folders by class.
//! - [`Csv`], [`JsonLines`], [`Sqlite`]: rows whose columns are declared.
//! - [`Numpy`], [`Table`]: files that describe their [`Columns`] themselves.
//! - [`Elements`]: elements that were saved.

mod builder;
mod columns;
mod csv;
mod elements;
mod family;
mod image_folder;
mod json_lines;
mod mds;
mod numpy;
mod records;
mod sqlite;
mod tables;
mod webdataset;

pub use columns::Columns;
pub use csv::{CSV_FIELDS_MAX, Csv, CsvColumn};
pub use elements::Elements;
pub use family::Format;
pub(crate) use image_folder::BELOW_CLASSES;
pub use image_folder::{IMAGE_EXTENSIONS, ImageFolder};
pub use json_lines::{JsonColumn, JsonLines};
pub(crate) use mds::INDEX;
pub use mds::Mds;
pub use numpy::Numpy;
pub use records::{Compression, FixedLength, RECORD_BYTES_MAX, TfRecord};
pub use sqlite::{SqlColumn, Sqlite};
pub use tables::{TABLE_ROWS_MAX, Table};
pub use webdataset::{KEY_COMPONENT, WebDataset};
