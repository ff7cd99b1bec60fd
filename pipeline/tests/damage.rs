//! Tests of record files that are cut short or overwritten. Reading such a file yields the intact
//! elements, or an error of the kind `Data`. Columnar formats have tests of their own.

use std::path::Path;

use millstream_pipeline::exec::save;
use millstream_pipeline::graph::{Compression, Dataset, FixedLength, OnError, Packing};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{damaged, survives};
use crate::support::{context, scalar};

/// A function that reads files, given a dataset of their paths.
type Reader = Box<dyn Fn(Dataset) -> Dataset>;

/// Returns a valid file of each format, and its reader.
fn samples(directory: &Path) -> Vec<(Vec<u8>, Reader)> {
    let fixture = |name: &str| {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    };
    let layout = FixedLength {
        record_bytes: 3,
        header_bytes: 1,
        footer_bytes: 2,
        compression: Compression::None,
    };
    let saved = directory.join("saved");
    save(
        &Dataset::range(0, 30, 1).graph().unwrap(),
        context(),
        &saved,
        Packing::Gzip,
    )
    .unwrap();
    let shards = std::fs::read_dir(&saved)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut shards = shards.filter(|path| path.extension().is_some_and(|ending| ending == "elements"));
    let shard = std::fs::read(shards.next().unwrap()).unwrap();
    vec![
        (
            fixture("examples.tfrecord"),
            Box::new(|files| files.tfrecord(Compression::None)),
        ),
        (
            fixture("examples.tfrecord.gz"),
            Box::new(|files| files.tfrecord(Compression::Gzip)),
        ),
        (
            fixture("examples.tfrecord.zlib"),
            Box::new(|files| files.tfrecord(Compression::Zlib)),
        ),
        (
            fixture("samples.tar"),
            Box::new(|files| files.webdataset(["cls"], OnError::Raise)),
        ),
        (b"one\r\ntw\xc3\xb6\n".to_vec(), Box::new(Dataset::text_lines)),
        (
            b"Haabbccff".to_vec(),
            Box::new(move |files| files.fixed_length_records(layout)),
        ),
        (shard, Box::new(|files| files.elements(scalar()))),
    ]
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn no_damage_to_files_of_records_does_harm(
        at: prop::sample::Index,
        change in prop::option::of(prop::sample::select(vec![0u8, 1, 0x7f, 0x80, 0xff])),
    ) {
        let directory = tempfile::tempdir().unwrap();
        for (whole, reader) in samples(directory.path()) {
            let path = directory.path().join("file");
            std::fs::write(&path, damaged(&whole, at.index(whole.len()), change)).unwrap();
            survives(reader(Dataset::files(path.to_str().unwrap())));
        }
    }
}
