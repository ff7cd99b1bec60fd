//! The files that upstream's tests read: TFRecord files, in which each record contains its file and its
//! number.

use std::fs::File;
use std::io::BufWriter;

use millstream::client::Reader;
use millstream::element::Element;
use millstream::pipeline::graph::{Compression, Dataset};
use millstream::pipeline::record::TfRecordWriter;
use tempfile::TempDir;

/// The number of records in each file.
const RECORDS: usize = 10;

/// A temporary folder with files of 10 records each.
pub(super) struct RecordFiles {
    directory: TempDir,
    count: usize,
}

impl RecordFiles {
    /// Writes `count` files, at most 10, whose sorted names number them.
    pub(super) fn write(count: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for file in 0..count {
            let path = directory.path().join(format!("{file}.tfrecord"));
            let stream = BufWriter::new(File::create(path).expect("a file"));
            let mut writer = TfRecordWriter::new(stream);
            for number in 0..RECORDS {
                writer.write(record(file, number).as_bytes()).expect("written");
            }
            writer.finish().expect("flushed");
        }
        Self { directory, count }
    }

    /// Returns the pattern that matches all files.
    pub(super) fn pattern(&self) -> String {
        format!("{}/*.tfrecord", self.directory.path().display())
    }

    /// Returns the dataset of the files' paths, in order.
    pub(super) fn files(&self) -> Dataset {
        Dataset::files(self.pattern())
    }

    /// Returns the dataset of all records, file by file.
    pub(super) fn flat(&self) -> Dataset {
        flat(self.files())
    }

    /// Returns the text of all records, sorted.
    pub(super) fn all(&self) -> Vec<String> {
        let files: Vec<usize> = (0..self.count).collect();
        let mut all = one_after_the_other(&files);
        all.sort_unstable();
        all
    }
}

/// Returns the dataset of the records in the files that a dataset names, file by file.
pub(super) fn flat(files: Dataset) -> Dataset {
    files.flat_map(|path| path.tfrecord(Compression::None))
}

/// Returns the text of a record.
pub(super) fn record(file: usize, number: usize) -> String {
    format!("Record {number} of file {file}")
}

/// Returns the text of the records of these files, file by file.
pub(super) fn one_after_the_other(files: &[usize]) -> Vec<String> {
    let of = |file: &usize| {
        (0..RECORDS)
            .map(|number| record(*file, number))
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(of).collect()
}

/// Returns the text of the records of these files, one record of each file in turn.
pub(super) fn by_turns(files: &[usize]) -> Vec<String> {
    let of = |number| files.iter().map(move |file| record(*file, number));
    (0..RECORDS).flat_map(of).collect()
}

/// Returns the remaining strings of a reader.
pub(super) fn texts(reader: &mut Reader) -> Vec<String> {
    let texts = reader.map(|element| text(&element.expect("the reader proceeds"), 0));
    texts.collect()
}

/// Returns the string of a component.
pub(super) fn text(element: &Element, component: usize) -> String {
    let view = element.component(component).expect("so many components");
    let strings = view.strings().expect("strings");
    let bytes = strings.iter().next().expect("one");
    String::from_utf8(bytes.to_vec()).expect("text")
}
