//! The builder's operations that read files.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::dataset::Dataset;
use crate::graph::op::{OnError, Op};

use super::family::Format;
use super::records::{Compression, FixedLength, TfRecord};
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
}
