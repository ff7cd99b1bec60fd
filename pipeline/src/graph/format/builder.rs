//! The builder's operations that read files.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::dataset::Dataset;
use crate::graph::definition::{Graph, Node};
use crate::graph::op::{OnError, Op};

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
    pub fn webdataset<'a>(self, fields: impl IntoIterator<Item = &'a str>, on_error: OnError) -> Dataset {
        let fields = fields.into_iter().map(str::to_owned).collect();
        self.then(Op::Read(Format::WebDataset(WebDataset { fields, on_error })))
    }

    /// The lines of the UTF-8 text files whose paths this dataset yields, as string scalars without their `\n` or
    /// `\r\n`.
    pub fn text_lines(self) -> Dataset {
        self.then(Op::Read(Format::TextLines))
    }

    /// The records of the TFRecord files whose paths this dataset yields, as byte strings. Their checksums are checked:
    /// a file that is cut off or corrupt is an error which names it and the place.
    pub fn tfrecord(self, compression: Compression) -> Dataset {
        self.then(Op::Read(Format::TfRecord(TfRecord { compression })))
    }

    /// The records, all of one length, of the files whose paths this dataset yields, as byte strings. A file that does
    /// not hold a whole number of them is an error.
    pub fn fixed_length_records(self, layout: FixedLength) -> Dataset {
        self.then(Op::Read(Format::FixedLength(layout)))
    }

    /// The rows of the CSV files whose paths this dataset yields: a dict of scalars, one for each of the columns.
    pub fn csv(self, csv: Csv) -> Dataset {
        self.then(Op::Read(Format::Csv(csv)))
    }

    /// The documents of the files whose paths this dataset yields, one a line: a dict of tensors, one for each of the
    /// fields.
    pub fn json_lines(self, json: JsonLines) -> Dataset {
        self.then(Op::Read(Format::JsonLines(json)))
    }

    /// The rows of the `.npy` files whose paths this dataset yields, or their arrays: one tensor.
    pub fn npy(self, numpy: Numpy) -> Dataset {
        self.reading(Format::Npy(numpy))
    }

    /// The rows of the arrays in the `.npz` files whose paths this dataset yields, or all arrays of a file at once: a dict
    /// of tensors by the arrays' names.
    pub fn npz(self, numpy: Numpy) -> Dataset {
        self.reading(Format::Npz(numpy))
    }

    /// The rows of the Parquet files whose paths this dataset yields, one by one or several at once: a dict by the columns'
    /// names.
    pub fn parquet(self, table: Table) -> Dataset {
        self.reading(Format::Parquet(table))
    }

    /// The rows of the Arrow IPC files and streams whose paths this dataset yields, as [`Dataset::parquet`].
    pub fn arrow(self, table: Table) -> Dataset {
        self.reading(Format::Arrow(table))
    }

    /// The rows of a query of the SQLite databases whose paths this dataset yields: a dict of scalars, one for each of the
    /// columns.
    pub fn sqlite(self, sqlite: Sqlite) -> Dataset {
        self.then(Op::Read(Format::Sqlite(sqlite)))
    }

    /// The samples of the MosaicML shards whose paths this dataset yields: a dict by the columns' names.
    pub fn mds(self, mds: Mds) -> Dataset {
        self.reading(Format::Mds(mds))
    }

    /// The files in the folders below `folder.root`, sorted by path: a dict of `image`, `label` and `path`.
    pub fn image_folder(folder: ImageFolder) -> Dataset {
        Dataset::files(folder.pattern()).then(Op::Read(Format::ImageFolder(folder)))
    }

    /// Reads files that say what is in them, which can be found out of the ones that are listed below.
    fn reading(self, mut format: Format) -> Dataset {
        let example = self.listed();
        if let Some(columns) = format.columns_mut()
            && columns.example.is_none()
        {
            columns.example = example;
        }
        self.then(Op::Read(format))
    }

    /// The pattern of the files whose paths this dataset yields, where it is the pattern of a `files` below.
    pub(in crate::graph) fn listed(&self) -> Option<String> {
        let mut node = self.nodes.last()?;
        loop {
            if let Op::Files(files) = &node.op {
                return Some(files.pattern.clone());
            }
            if let Op::Shuffle(_)
            | Op::Repeat(_)
            | Op::Take(_)
            | Op::Skip(_)
            | Op::Shard(_)
            | Op::Prefetch(_)
            | Op::Options(_)
            | Op::Filter(_) = &node.op
                && let [input] = node.inputs[..]
            {
                node = self.nodes.get(input as usize)?;
            } else {
                return None;
            }
        }
    }
}

/// The operation, with the files that `pattern` matches as examples for the readers of its argument's files.
pub(in crate::graph) fn with_example(mut op: Op, pattern: &str) -> Op {
    let of_argument = |graph: &Graph, node: &Node| {
        let input = node
            .inputs
            .first()
            .and_then(|input| graph.nodes().get(*input as usize));
        input.is_some_and(|input| matches!(input.op, Op::Argument))
    };
    for graph in op.graphs_mut() {
        let nodes = graph.nodes().iter().map(|node| {
            let mut filled = node.clone();
            if let Op::Read(format) = &mut filled.op
                && of_argument(graph, node)
                && let Some(columns) = format.columns_mut()
            {
                columns.example.get_or_insert_with(|| pattern.to_owned());
            }
            filled
        });
        *graph = graph.with_ops(nodes.collect());
    }
    op
}
