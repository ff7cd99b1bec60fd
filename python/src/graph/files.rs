//! File formats: each operation reads the files whose paths the dataset yields.

use millstream::pipeline::graph::{
    Columns, Compression, Csv, CsvColumn, Dataset, FixedLength, ImageFolder, JsonColumn, JsonLines, Mds,
    Numpy, OnError, SqlColumn, Sqlite, Table,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Graph;
use crate::failure::raise;
use crate::spec;

#[pymethods]
impl Graph {
    fn text_lines(&self) -> PyResult<Graph> {
        self.step(|dataset| dataset.text_lines())
    }

    fn tfrecord(&self, compression: &str) -> PyResult<Graph> {
        let compression = packed(compression)?;
        self.step(|dataset| dataset.tfrecord(compression))
    }

    fn fixed_length_records(
        &self,
        record_bytes: u64,
        header_bytes: u64,
        footer_bytes: u64,
        compression: &str,
    ) -> PyResult<Graph> {
        let layout = FixedLength {
            record_bytes,
            header_bytes,
            footer_bytes,
            compression: packed(compression)?,
        };
        self.step(|dataset| dataset.fixed_length_records(layout))
    }

    /// Reads CSV files. Each column has a name, a dtype, and the text that replaces a missing value.
    fn csv(
        &self,
        columns: Vec<(String, String, Option<String>)>,
        header: bool,
        delimiter: &str,
        compression: &str,
        skips_errors: bool,
    ) -> PyResult<Graph> {
        let columns = columns.into_iter().map(|(name, dtype, default)| {
            Ok(CsvColumn {
                default,
                ..CsvColumn::required(name, spec::dtype(&dtype)?)
            })
        });
        let [delimiter] = delimiter.as_bytes() else {
            return Err(PyValueError::new_err(
                "invalid delimiter: expected one ASCII character",
            ));
        };
        let csv = Csv {
            header,
            delimiter: *delimiter,
            compression: packed(compression)?,
            on_error: on_error(skips_errors),
            ..Csv::new(columns.collect::<PyResult<Vec<_>>>()?)
        };
        self.step(|dataset| dataset.csv(csv))
    }

    /// Reads files of JSON lines. Each field has a name, the spec of one tensor, and the JSON that replaces a
    /// missing value.
    fn json_lines(
        &self,
        fields: Vec<(String, Bound<'_, PyAny>, Option<String>)>,
        compression: &str,
        skips_errors: bool,
    ) -> PyResult<Graph> {
        let fields = fields.into_iter().map(|(name, described, default)| {
            let spec = spec::from_python(&described)?;
            let [tensor] = spec.components() else {
                return Err(PyValueError::new_err(format!(
                    "invalid field {name:?}: expected the spec of one tensor"
                )));
            };
            let field = JsonColumn::required(name, tensor.clone());
            let field = field.map_err(|error| raise("InvalidArgumentError", error))?;
            Ok(JsonColumn { default, ..field })
        });
        let json = JsonLines {
            compression: packed(compression)?,
            on_error: on_error(skips_errors),
            ..JsonLines::new(fields.collect::<PyResult<Vec<_>>>()?)
        };
        self.step(|dataset| dataset.json_lines(json))
    }

    /// Reads `.npy` or `.npz` files. `like` is a pattern of files from which the columns are read if they are
    /// neither declared nor listed.
    #[pyo3(signature = (kind, names, declared, like, whole, skips_errors))]
    fn numpy_files(
        &self,
        kind: &str,
        names: Vec<String>,
        declared: Option<Bound<'_, PyAny>>,
        like: Option<String>,
        whole: bool,
        skips_errors: bool,
    ) -> PyResult<Graph> {
        let numpy = Numpy {
            whole,
            columns: columns(names, declared, like)?,
            on_error: on_error(skips_errors),
        };
        self.step(|dataset| {
            if kind == "npz" {
                dataset.npz(numpy)
            } else {
                dataset.npy(numpy)
            }
        })
    }

    /// Reads Arrow or Parquet files. `like` is a pattern of files from which the columns are read if they are
    /// neither declared nor listed. `rows` is the number of rows in a batch; `None` yields single rows.
    fn tables(
        &self,
        kind: &str,
        names: Vec<String>,
        declared: Option<Bound<'_, PyAny>>,
        like: Option<String>,
        rows: Option<u64>,
        skips_errors: bool,
    ) -> PyResult<Graph> {
        let columns = columns(names, declared, like)?;
        let table = Table {
            rows,
            on_error: on_error(skips_errors),
            ..Table::rows(columns)
        };
        self.step(|dataset| {
            if kind == "arrow" {
                dataset.arrow(table)
            } else {
                dataset.parquet(table)
            }
        })
    }

    /// Reads the rows of a query on SQLite files. Each column has a name, a dtype, and a flag that reads NULL
    /// as zero.
    fn sqlite(&self, query: String, columns: Vec<(String, String, bool)>) -> PyResult<Graph> {
        let columns = columns.into_iter().map(|(name, dtype, null_as_default)| {
            Ok(SqlColumn {
                null_as_default,
                ..SqlColumn::required(name, spec::dtype(&dtype)?)
            })
        });
        let sqlite = Sqlite::new(query, columns.collect::<PyResult<Vec<_>>>()?);
        self.step(|dataset| dataset.sqlite(sqlite))
    }

    fn webdataset(&self, fields: Vec<String>, skips_errors: bool) -> PyResult<Graph> {
        let on_error = on_error(skips_errors);
        self.step(|dataset| dataset.webdataset(fields.iter().map(String::as_str), on_error))
    }

    fn mds(&self, names: Vec<String>, declared: Option<Bound<'_, PyAny>>) -> PyResult<Graph> {
        let mds = Mds::new(columns(names, declared, None)?);
        self.step(|dataset| dataset.mds(mds))
    }

    #[staticmethod]
    fn image_folder(root: String) -> PyResult<Graph> {
        Graph::new(Dataset::image_folder(ImageFolder::new(root)))
    }
}

fn packed(compression: &str) -> PyResult<Compression> {
    match compression {
        "" => Ok(Compression::None),
        "GZIP" => Ok(Compression::Gzip),
        "ZLIB" => Ok(Compression::Zlib),
        other => Err(PyValueError::new_err(format!(
            "invalid compression_type {other:?}: expected \"\", \"GZIP\" or \"ZLIB\""
        ))),
    }
}

fn on_error(skips: bool) -> OnError {
    if skips { OnError::Skip } else { OnError::Raise }
}

fn columns(
    names: Vec<String>,
    declared: Option<Bound<'_, PyAny>>,
    like: Option<String>,
) -> PyResult<Columns> {
    let mut columns = Columns::named(names);
    if let Some(pattern) = like {
        columns = columns.like(pattern);
    }
    Ok(match declared {
        Some(described) => columns.declared(spec::from_python(&described)?),
        None => columns,
    })
}
