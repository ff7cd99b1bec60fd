//! The methods of the builder for operations that read files.
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
    /// Reads the samples of the WebDataset shards whose paths this dataset yields. Each element is a dict of
    /// `fields` as bytes and `__key__`.
    ///
    /// The files of a shard are grouped into samples as in the package `webdataset`. A sample that lacks one
    /// of the fields, and a broken shard, are errors with file and place, or are skipped: see [`OnError`].
    pub fn webdataset<'a>(self, fields: impl IntoIterator<Item = &'a str>, on_error: OnError) -> Dataset {
        let fields = fields.into_iter().map(str::to_owned).collect();
        self.read(Format::WebDataset(WebDataset { fields, on_error }))
    }

    /// Reads the lines of the UTF-8 text files whose paths this dataset yields, as string scalars without
    /// their `\n` or `\r\n`.
    ///
    /// Works as `tf.data.TextLineDataset`. A line of more than 64 MiB, or of invalid UTF-8, is an error with
    /// its file and place.
    pub fn text_lines(self) -> Dataset {
        self.read(Format::TextLines)
    }

    /// Reads the records of the TFRecord files whose paths this dataset yields, as byte strings. Every
    /// checksum is verified: a truncated or corrupt file is an error that names the file and the place.
    ///
    /// Works as `tf.data.TFRecordDataset`.
    pub fn tfrecord(self, compression: Compression) -> Dataset {
        self.read(Format::TfRecord(TfRecord { compression }))
    }

    /// Reads records of one length from the files whose paths this dataset yields, as byte strings. A file
    /// that does not hold a whole number of records is an error.
    ///
    /// Works as `tf.data.FixedLengthRecordDataset`. Lengths are in bytes, and must be within the limit of a
    /// record.
    pub fn fixed_length_records(self, layout: FixedLength) -> Dataset {
        self.read(Format::FixedLength(layout))
    }

    /// Reads the rows of the CSV files whose paths this dataset yields. Each element is a dict of scalars,
    /// one for each column.
    ///
    /// Works as `tf.data.experimental.CsvDataset`. Rows with a wrong number of fields, and values of a wrong
    /// type, are errors with file and place, or are skipped.
    pub fn csv(self, csv: Csv) -> Dataset {
        self.read(Format::Csv(csv))
    }

    /// Reads the JSON documents of the files whose paths this dataset yields, one document a line. Each
    /// element is a dict of tensors, one for each field.
    ///
    /// Lines of invalid JSON, and values that are missing or of a wrong type, are errors with file and place,
    /// or are skipped.
    pub fn json_lines(self, json: JsonLines) -> Dataset {
        self.read(Format::JsonLines(json))
    }

    /// Reads the rows of the `.npy` files whose paths this dataset yields, or their whole arrays. Each
    /// element is one tensor.
    ///
    /// Works as `from_tensor_slices(np.load(path))`, which yields one tensor for each row. Pickled objects,
    /// and files whose type or shape differs from the declaration, are errors.
    pub fn npy(self, numpy: Numpy) -> Dataset {
        self.read(Format::Npy(numpy))
    }

    /// Reads the rows of the arrays in the `.npz` files whose paths this dataset yields, or all arrays of a
    /// file at once. Each element is a dict of tensors by the arrays' names.
    ///
    /// Works as `np.load`. A file whose arrays differ in their number of rows is an error, unless files are
    /// read whole.
    pub fn npz(self, numpy: Numpy) -> Dataset {
        self.read(Format::Npz(numpy))
    }

    /// Reads the rows of the Parquet files whose paths this dataset yields, one by one or in batches. Each
    /// element is a dict by the columns' names.
    ///
    /// The method is the counterpart of `tfio.IODataset.from_parquet`. Columns that are missing or of a wrong
    /// type are refused. Nulls and broken files are errors with file and place, or are skipped.
    pub fn parquet(self, table: Table) -> Dataset {
        self.read(Format::Parquet(table))
    }

    /// Reads the rows of the Arrow IPC files and streams whose paths this dataset yields, with the rules of
    /// [`Dataset::parquet`].
    ///
    /// The method is the counterpart of `tfio.arrow.ArrowFeatherDataset`.
    pub fn arrow(self, table: Table) -> Dataset {
        self.read(Format::Arrow(table))
    }

    /// Reads the rows that a query yields in the SQLite databases whose paths this dataset yields. Each
    /// element is a dict of scalars, one for each column.
    ///
    /// Works as `tf.data.experimental.SqlDataset`. An invalid query, and a query that would change the
    /// database, are refused. A value of a wrong type is an error of its row, or the row is skipped.
    pub fn sqlite(self, sqlite: Sqlite) -> Dataset {
        self.read(Format::Sqlite(sqlite))
    }

    /// Reads the samples of the MosaicML shards whose paths this dataset yields. Each element is a dict by
    /// the columns' names.
    ///
    /// If the paths match a pattern that ends in `index.json`, each path is an index, which lists shards with
    /// sizes and checksums (`xxh64`). The listed shards are read and verified. A shard with a checksum is
    /// read twice, the first time to verify the checksum.
    ///
    /// Reads shards as `streaming.StreamingDataset` does. Broken samples, and samples that do not match the
    /// columns, are errors with file and place, or are skipped.
    pub fn mds(self, mds: Mds) -> Dataset {
        self.read(Format::Mds(mds))
    }

    /// Reads the files in the folders below `folder.root`, sorted by path. Each element is a dict of `image`,
    /// `label` and `path`.
    ///
    /// Works as `torchvision.datasets.ImageFolder` and `keras.utils.image_dataset_from_directory`. `image`
    /// has the bytes of the file, which are not decoded, `label` is an `i64`, and `path` is a string.
    pub fn image_folder(folder: ImageFolder) -> Dataset {
        Dataset::files(folder.pattern()).read(Format::ImageFolder(folder))
    }
}
