//! The list of file formats. Each format has a name on the wire, rules for its parameters, and a spec of its
//! elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use serde_json::{Map, Value};

use crate::graph::codec::{Encoded, encoded};
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::named::{NoParameters, named_params};
use crate::graph::on_error::OnError;
use crate::graph::registry::{FileFormat, Registry};

use super::columns::Columns;
use super::csv::Csv;
use super::elements::Elements;
use super::image_folder::ImageFolder;
use super::json_lines::JsonLines;
use super::mds::Mds;
use super::numpy::Numpy;
use super::records::{Compression, FixedLength, TfRecord};
use super::sqlite::Sqlite;
use super::tables::Table;
use super::webdataset::WebDataset;

/// The format of the files whose paths are the input. The operation reads one file after another, each from
/// start to end.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// The lines of text files.
    TextLines,
    /// TFRecord files, whose records have a length and checksums.
    TfRecord(TfRecord),
    /// Files whose records have the same length.
    FixedLength(FixedLength),
    /// The samples of WebDataset tar shards.
    WebDataset(WebDataset),
    /// The rows of CSV files.
    Csv(Csv),
    /// The documents of JSON lines files, one document a line.
    JsonLines(JsonLines),
    /// NumPy arrays.
    Npy(Numpy),
    /// Archives of NumPy arrays.
    Npz(Numpy),
    /// The rows of Parquet files.
    Parquet(Table),
    /// The rows of Arrow IPC files and streams.
    Arrow(Table),
    /// The rows that queries of SQLite databases yield.
    Sqlite(Sqlite),
    /// The samples of MosaicML shards.
    Mds(Mds),
    /// Whole files, labelled by class.
    ImageFolder(ImageFolder),
    /// Elements that were saved.
    Elements(Elements),
}

impl FileFormat for Format {
    fn op_name(&self) -> &'static str {
        Format::op_name(self)
    }
}

impl Format {
    /// The names of all formats.
    pub(crate) const NAMES: &'static [&'static str] = &[
        "text_lines",
        "tfrecord",
        "fixed_length",
        "webdataset",
        "elements",
        "csv",
        "json_lines",
        "npy",
        "npz",
        "parquet",
        "arrow",
        "sqlite",
        "mds",
        "image_folder",
    ];

    /// Returns the name of the operation that reads the format, on the wire and in messages.
    pub fn op_name(&self) -> &'static str {
        match self {
            Format::TextLines => "text_lines",
            Format::TfRecord(_) => "tfrecord",
            Format::FixedLength(_) => "fixed_length",
            Format::WebDataset(_) => "webdataset",
            Format::Csv(_) => "csv",
            Format::JsonLines(_) => "json_lines",
            Format::Npy(_) => "npy",
            Format::Npz(_) => "npz",
            Format::Parquet(_) => "parquet",
            Format::Arrow(_) => "arrow",
            Format::Sqlite(_) => "sqlite",
            Format::Mds(_) => "mds",
            Format::ImageFolder(_) => "image_folder",
            Format::Elements(_) => "elements",
        }
    }

    /// Returns the feature of this crate that reads the format; `None` if every build of the crate reads the
    /// format.
    pub fn feature(&self) -> Option<&'static str> {
        match self {
            Format::TextLines | Format::ImageFolder(_) => None,
            Format::TfRecord(_) | Format::FixedLength(_) => Some("records"),
            Format::WebDataset(_) => Some("webdataset"),
            Format::Csv(_) => Some("csv"),
            Format::JsonLines(_) => Some("json"),
            Format::Npy(_) | Format::Npz(_) => Some("numpy"),
            Format::Parquet(_) | Format::Arrow(_) => Some("arrow"),
            Format::Sqlite(_) => Some("sqlite"),
            Format::Mds(_) => Some("mds"),
            Format::Elements(_) => Some("saved"),
        }
    }

    /// Returns the treatment of records that cannot be read.
    pub fn on_error(&self) -> OnError {
        match self {
            Format::TextLines | Format::TfRecord(_) | Format::FixedLength(_) | Format::Elements(_) => {
                OnError::Raise
            }
            Format::WebDataset(webdataset) => webdataset.on_error,
            Format::Csv(csv) => csv.on_error,
            Format::JsonLines(json) => json.on_error,
            Format::Npy(numpy) | Format::Npz(numpy) => numpy.on_error,
            Format::Parquet(table) | Format::Arrow(table) => table.on_error,
            Format::Sqlite(sqlite) => sqlite.on_error,
            Format::Mds(mds) => mds.on_error,
            Format::ImageFolder(folder) => folder.on_error,
        }
    }

    /// Returns whether a part of a file can be read without the rest. A part yields the records that begin in
    /// it.
    pub fn is_divisible(&self) -> bool {
        match self {
            Format::TextLines => true,
            Format::FixedLength(fixed) => fixed.compression == Compression::None,
            // A part is a number of row groups. If an element were several rows, its rows would depend on the
            // part.
            Format::Parquet(table) => table.rows.is_none(),
            // The start of a record is known only from the record before it, or from a table in the file.
            Format::TfRecord(_)
            | Format::WebDataset(_)
            | Format::Elements(_)
            | Format::Csv(_)
            | Format::JsonLines(_)
            | Format::Npy(_)
            | Format::Npz(_)
            | Format::Arrow(_)
            | Format::Sqlite(_)
            | Format::Mds(_)
            | Format::ImageFolder(_) => false,
        }
    }

    /// Returns the description of one file of this format, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Format::TextLines => "a text file",
            Format::TfRecord(_) | Format::FixedLength(_) => "a record file",
            Format::WebDataset(_) => "a tar shard",
            Format::Csv(_) => "a CSV file",
            Format::JsonLines(_) => "a file of JSON lines",
            Format::Npy(_) => "an .npy file",
            Format::Npz(_) => "an .npz file",
            Format::Parquet(_) => "a Parquet file",
            Format::Arrow(_) => "an Arrow IPC file",
            Format::Sqlite(_) => "an SQLite database",
            Format::Mds(_) => "an MDS shard",
            Format::ImageFolder(_) => "a file in the folder of a class",
            Format::Elements(_) => "a file of elements",
        }
    }

    /// Checks the parameters of the format, without knowledge of its input.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Format::TextLines | Format::TfRecord(_) | Format::Elements(_) => Ok(()),
            Format::FixedLength(fixed) => fixed.check(),
            Format::WebDataset(webdataset) => webdataset.check(),
            Format::Csv(csv) => csv.check(),
            Format::JsonLines(json) => json.check(),
            Format::Npy(numpy) | Format::Npz(numpy) => numpy.columns.check(),
            Format::Parquet(table) | Format::Arrow(table) => table.check(),
            Format::Sqlite(sqlite) => sqlite.check(),
            Format::Mds(mds) => mds.columns.check(),
            Format::ImageFolder(folder) => folder.check(),
        }
    }

    /// Returns the spec of the elements in the files whose paths are the elements of `input`.
    pub(crate) fn spec(
        &self,
        registry: &dyn Registry,
        input: &ElementSpec,
    ) -> Result<ElementSpec, AnalysisError> {
        match input.components() {
            [only] if only.accepts(Dtype::String, &[]) => {}
            _ => {
                let what = self.what();
                let reason = format!("expected one string, the path of {what}, found {input}");
                return Err(self.mismatch(reason));
            }
        }
        let spec = match self {
            Format::TextLines => ElementSpec::single(TensorSpec::scalar(Dtype::String)),
            Format::TfRecord(_) | Format::FixedLength(_) => {
                ElementSpec::single(TensorSpec::scalar(Dtype::Bytes))
            }
            Format::WebDataset(webdataset) => webdataset.spec(),
            Format::Csv(csv) => csv.spec(),
            Format::JsonLines(json) => json.spec(),
            Format::Sqlite(sqlite) => sqlite.spec(),
            Format::ImageFolder(_) => ImageFolder::spec(),
            Format::Npy(Numpy { columns, .. })
            | Format::Npz(Numpy { columns, .. })
            | Format::Parquet(Table { columns, .. })
            | Format::Arrow(Table { columns, .. })
            | Format::Mds(Mds { columns, .. }) => match &columns.declared {
                Some(declared) => Ok(declared.0.clone()),
                None => return registry.files(self),
            },
            Format::Elements(elements) => Ok(elements.spec.0.clone()),
        };
        spec.map_err(|error| AnalysisError::Spec {
            op: self.op_name().to_owned(),
            reason: error.to_string(),
        })
    }

    /// Returns the selected columns of a format whose files describe themselves; `None` for other formats.
    pub fn columns(&self) -> Option<&Columns> {
        match self {
            Format::Npy(numpy) | Format::Npz(numpy) => Some(&numpy.columns),
            Format::Parquet(table) | Format::Arrow(table) => Some(&table.columns),
            Format::Mds(mds) => Some(&mds.columns),
            Format::TextLines
            | Format::TfRecord(_)
            | Format::FixedLength(_)
            | Format::WebDataset(_)
            | Format::Elements(_)
            | Format::Csv(_)
            | Format::JsonLines(_)
            | Format::Sqlite(_)
            | Format::ImageFolder(_) => None,
        }
    }

    /// Returns the selected columns of a format whose files describe themselves, for changes.
    pub(crate) fn columns_mut(&mut self) -> Option<&mut Columns> {
        if let Format::Npy(numpy) | Format::Npz(numpy) = self {
            Some(&mut numpy.columns)
        } else if let Format::Parquet(table) | Format::Arrow(table) = self {
            Some(&mut table.columns)
        } else if let Format::Mds(mds) = self {
            Some(&mut mds.columns)
        } else {
            None
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, GraphError> {
        match self {
            Format::TextLines => Ok(Vec::new()),
            Format::TfRecord(params) => encoded(params),
            Format::FixedLength(params) => encoded(params),
            Format::WebDataset(params) => encoded(params),
            Format::Csv(params) => encoded(params),
            Format::JsonLines(params) => encoded(params),
            Format::Npy(params) | Format::Npz(params) => encoded(params),
            Format::Parquet(params) | Format::Arrow(params) => encoded(params),
            Format::Sqlite(params) => encoded(params),
            Format::Mds(params) => encoded(params),
            Format::ImageFolder(params) => encoded(params),
            Format::Elements(params) => encoded(params),
        }
    }

    /// Decodes the format that the operation with the name in `params` reads.
    pub(crate) fn decode(params: &Encoded<'_>) -> Result<Format, GraphError> {
        Ok(match params.name() {
            "text_lines" => Format::TextLines,
            "tfrecord" => Format::TfRecord(params.params()?),
            "fixed_length" => Format::FixedLength(params.params()?),
            "webdataset" => Format::WebDataset(params.params()?),
            "csv" => Format::Csv(params.params()?),
            "json_lines" => Format::JsonLines(params.params()?),
            "npy" => Format::Npy(params.params()?),
            "npz" => Format::Npz(params.params()?),
            "parquet" => Format::Parquet(params.params()?),
            "arrow" => Format::Arrow(params.params()?),
            "sqlite" => Format::Sqlite(params.params()?),
            "mds" => Format::Mds(params.params()?),
            "image_folder" => Format::ImageFolder(params.params()?),
            "elements" => Format::Elements(params.params()?),
            _ => return Err(params.malformed("is not a known file format")),
        })
    }

    /// Makes the format that the operation `op` reads of its parameters by name.
    ///
    /// # Errors
    /// The reason, as text: a parameter is missing, unknown or of a wrong type.
    pub(crate) fn named(op: &str, parameters: Map<String, Value>) -> Result<Format, String> {
        match op {
            "text_lines" => named_params::<NoParameters>(parameters).map(|_| Format::TextLines),
            "tfrecord" => named_params(parameters).map(Format::TfRecord),
            "fixed_length" => named_params(parameters).map(Format::FixedLength),
            "webdataset" => named_params(parameters).map(Format::WebDataset),
            "csv" => named_params(parameters).map(Format::Csv),
            "json_lines" => named_params(parameters).map(Format::JsonLines),
            "npy" => named_params(parameters).map(Format::Npy),
            "npz" => named_params(parameters).map(Format::Npz),
            "parquet" => named_params(parameters).map(Format::Parquet),
            "arrow" => named_params(parameters).map(Format::Arrow),
            "sqlite" => named_params(parameters).map(Format::Sqlite),
            "mds" => named_params(parameters).map(Format::Mds),
            "image_folder" => named_params(parameters).map(Format::ImageFolder),
            "elements" => named_params(parameters).map(Format::Elements),
            other => Err(format!("unknown format {other:?}")),
        }
    }

    fn mismatch(&self, reason: String) -> AnalysisError {
        AnalysisError::Mismatch {
            op: self.op_name().to_owned(),
            reason,
        }
    }
}
