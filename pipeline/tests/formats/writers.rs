//! Tests of files that this crate writes: files are read back as written, and exist completely or not
//! at all.

use std::path::Path;

use millstream_element::Dtype;
use millstream_pipeline::graph::{Compression, Dataset, OnError};
use millstream_pipeline::record::{TfRecordFileWriter, WebDatasetWriter};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{Flat, elements};

fn files_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

fn bytes(content: &[u8]) -> Flat {
    (Dtype::Bytes, vec![], vec![content.to_vec()])
}

fn read(path: &Path) -> Dataset {
    Dataset::files(path.to_str().unwrap())
}

proptest! {
    #![proptest_config(rounds(20))]

    #[test]
    fn records_are_read_as_they_were_written(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5),
        compression in prop::sample::select(vec![Compression::None, Compression::Gzip, Compression::Zlib]),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let mut writer = TfRecordFileWriter::create(&path, compression).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        prop_assert!(!path.exists());
        writer.finish().unwrap();
        let expected: Vec<_> = records.iter().map(|record| vec![bytes(record)]).collect();
        prop_assert_eq!(elements(&read(&path).tfrecord(compression).graph().unwrap()), expected);
        prop_assert_eq!(files_in(directory.path()), 1);
    }

    #[test]
    fn samples_are_read_as_they_were_written(
        samples in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..600), any::<u8>()), 0..5),
        folder in "[a-z]{0,120}",
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shard.tar");
        let mut writer = WebDatasetWriter::create(&path).unwrap();
        let key = |index: usize| format!("x{folder}/{index}");
        for (index, (image, class)) in samples.iter().enumerate() {
            writer.write(&key(index), &[("jpg", image), ("seg.cls", &[*class])]).unwrap();
        }
        writer.finish().unwrap();
        let expected = samples.iter().enumerate().map(|(index, (image, class))| {
            let key = (Dtype::String, vec![], vec![key(index).into_bytes()]);
            vec![bytes(&[*class]), bytes(image), key]
        });
        let expected: Vec<_> = expected.collect();
        let dataset = read(&path).webdataset(["seg.cls", "jpg"], OnError::Raise);
        prop_assert_eq!(elements(&dataset.graph().unwrap()), expected);
    }
}

#[test]
fn a_dropped_writer_leaves_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records");
    std::fs::write(&path, "before").unwrap();
    let mut writer = TfRecordFileWriter::create(&path, Compression::None).unwrap();
    writer.write(b"lost").unwrap();
    drop(writer);
    drop(WebDatasetWriter::create(&path).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(files_in(directory.path()), 1);
}

#[test]
fn unreadable_samples_are_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = WebDatasetWriter::create(directory.path().join("shard.tar")).unwrap();
    writer.write("a", &[("txt", b"1")]).unwrap();
    for (key, fields, reason) in [
        ("a", &[("txt", &b"2"[..])][..], "equals the previous key"),
        ("b.c", &[("txt", &b"2"[..])][..], "has no dot"),
        ("", &[("txt", &b"2"[..])][..], "invalid key"),
        ("c", &[][..], "no fields"),
        ("c", &[("txt", &b"2"[..]), ("TXT", &b"3"[..])][..], "twice"),
    ] {
        let refused = writer.write(key, fields).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}
