//! The builder's operations that read files.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::dataset::Dataset;
use crate::graph::on_error::OnError;

use super::csv::Csv;
use super::family::Format;
use super::image_folder::ImageFolder;
use super::json_lines::JsonLines;
use super::mds::Mds;
use super::numpy::Numpy;
use super::records::{Compression, FixedLength, TfRecord};
use super::sqlite::Sqlite;
use super::tables::Table;
use super::webdataset::WebDataset;

impl Dataset {
    /// The samples of the WebDataset shards whose paths this dataset yields: a dict of `fields` as bytes and
    /// `__key__`.
    ///
    /// Groups files as the package `webdataset` does. A sample without one of the fields, and a broken shard,
    /// are errors with their file and place, or left out: see [`OnError`].
    pub fn webdataset<'a>(self, fields: impl IntoIterator<Item = &'a str>, on_error: OnError) -> Dataset {
        let fields = fields.into_iter().map(str::to_owned).collect();
        self.read(Format::WebDataset(WebDataset { fields, on_error }))
    }

    /// The lines of the UTF-8 text files whose paths this dataset yields, as string scalars without their
    /// `\n` or `\r\n`.
    ///
    /// Works as `tf.data.TextLineDataset`. A line of more than 64 MiB, or that is no UTF-8, is an error with
    /// its file and place.
    pub fn text_lines(self) -> Dataset {
        self.read(Format::TextLines)
    }

    /// The records of the TFRecord files whose paths this dataset yields, as byte strings. Their checksums
    /// are checked: a file that is cut off or corrupt is an error which names it and the place.
    ///
    /// Works as `tf.data.TFRecordDataset`.
    pub fn tfrecord(self, compression: Compression) -> Dataset {
        self.read(Format::TfRecord(TfRecord { compression }))
    }

    /// The records, all of one length, of the files whose paths this dataset yields, as byte strings. A file
    /// that does not hold a whole number of them is an error.
    ///
    /// Works as `tf.data.FixedLengthRecordDataset`; lengths are in bytes, none of them beyond a record's
    /// limit.
    pub fn fixed_length_records(self, layout: FixedLength) -> Dataset {
        self.read(Format::FixedLength(layout))
    }

    /// The rows of the CSV files whose paths this dataset yields: a dict of scalars, one for each of the
    /// columns.
    ///
    /// Works as `tf.data.experimental.CsvDataset`. Rows of another number of fields, and values of another
    /// type, are errors with their file and place, or left out.
    pub fn csv(self, csv: Csv) -> Dataset {
        self.read(Format::Csv(csv))
    }

    /// The documents of the files whose paths this dataset yields, one a line: a dict of tensors, one for
    /// each of the fields.
    ///
    /// Lines that are no JSON, and values that are missing or of another type, are errors with their file and
    /// place, or left out.
    pub fn json_lines(self, json: JsonLines) -> Dataset {
        self.read(Format::JsonLines(json))
    }

    /// The rows of the `.npy` files whose paths this dataset yields, or their arrays: one tensor.
    ///
    /// Works as `from_tensor_slices(np.load(path))`, which is one tensor a row. Files of another type or
    /// shape than declared, and pickled objects, are errors.
    pub fn npy(self, numpy: Numpy) -> Dataset {
        self.read(Format::Npy(numpy))
    }

    /// The rows of the arrays in the `.npz` files whose paths this dataset yields, or all arrays of a file at
    /// once: a dict of tensors by the arrays' names.
    ///
    /// Works as `np.load`. Arrays of different numbers of rows are an error of their file, unless they are
    /// read whole.
    pub fn npz(self, numpy: Numpy) -> Dataset {
        self.read(Format::Npz(numpy))
    }

    /// The rows of the Parquet files whose paths this dataset yields, one by one or several at once: a dict
    /// by the columns' names.
    ///
    /// The counterpart of `tfio.IODataset.from_parquet`. Columns that are missing or of another type are
    /// refused; nulls, and files that are broken, are errors with their file and place, or left out.
    pub fn parquet(self, table: Table) -> Dataset {
        self.read(Format::Parquet(table))
    }

    /// The rows of the Arrow IPC files and streams whose paths this dataset yields, as [`Dataset::parquet`].
    ///
    /// The counterpart of `tfio.arrow.ArrowFeatherDataset`.
    pub fn arrow(self, table: Table) -> Dataset {
        self.read(Format::Arrow(table))
    }

    /// The rows of a query of the SQLite databases whose paths this dataset yields: a dict of scalars, one
    /// for each of the columns.
    ///
    /// Works as `tf.data.experimental.SqlDataset`. A query that is none, or that would change something, is
    /// refused; a value of another type is an error of its row, or left out.
    pub fn sqlite(self, sqlite: Sqlite) -> Dataset {
        self.read(Format::Sqlite(sqlite))
    }

    /// The samples of the MosaicML shards whose paths this dataset yields: a dict by the columns' names.
    ///
    /// Of paths that match a pattern which ends in `index.json`, which lists shards, the shards are read,
    /// whose sizes and checksums (`xxh64`) it says; a shard with a checksum is read once more for that.
    ///
    /// Reads shards as `streaming.StreamingDataset` does. Samples that are broken, or not what the columns
    /// say, are errors with their file and place, or left out.
    pub fn mds(self, mds: Mds) -> Dataset {
        self.read(Format::Mds(mds))
    }

    /// The files in the folders below `folder.root`, sorted by path: a dict of `image`, `label` and `path`.
    ///
    /// Works as `torchvision.datasets.ImageFolder` and `keras.utils.image_dataset_from_directory`: bytes that
    /// are not decoded, an `i64`, a string.
    pub fn image_folder(folder: ImageFolder) -> Dataset {
        Dataset::files(folder.pattern()).read(Format::ImageFolder(folder))
    }
}
