//! Tests of record files: TFRecord files and records of fixed length.

use std::io::Write;
use std::path::Path;

use flate2::write::{GzEncoder, ZlibEncoder};
use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{
    Compression, Dataset, FixedLength, Graph, RECORD_BYTES_MAX, ShardBy, Share,
};
use millstream_pipeline::record::TfRecordWriter;
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::open;

/// Makes a directory with one file per entry of `contents`, in this order.
fn files(contents: &[Vec<u8>]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (index, content) in contents.iter().enumerate() {
        std::fs::write(directory.path().join(format!("{index:04}")), content).unwrap();
    }
    directory
}

fn all(directory: &Path) -> Dataset {
    Dataset::files(format!("{}/*", directory.display()))
}

fn records(executor: &mut Executor) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        records.push(item.value[0].contiguous().unwrap().to_vec());
    }
    records
}

fn records_of(graph: &Graph) -> Vec<Vec<u8>> {
    records(&mut open(graph))
}

/// Computes the masked checksum of TFRecord bit by bit, independently of the crate.
fn masked_checksum(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 * (sum & 1));
        }
    }
    let sum = !sum;
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns a TFRecord file, written independently of the crate.
fn tfrecord(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        let length = (record.len() as u64).to_le_bytes();
        file.extend(length);
        file.extend(masked_checksum(&length).to_le_bytes());
        file.extend(record);
        file.extend(masked_checksum(record).to_le_bytes());
    }
    file
}

fn compressed(content: &[u8], compression: Compression) -> Vec<u8> {
    let level = flate2::Compression::fast();
    match compression {
        Compression::None => content.to_vec(),
        Compression::Gzip => {
            // The file has two gzip members, as `cat a.gz b.gz` produces.
            let (front, back) = content.split_at(content.len() / 2);
            let member = |bytes: &[u8]| {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            };
            [member(front), member(back)].concat()
        }
        Compression::Zlib => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn any_compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(vec![Compression::None, Compression::Gzip, Compression::Zlib])
}

fn any_records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let record = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(record, 0..6)
}

/// Reads `cut` records, saves the state, and reads the other records with another executor.
fn interrupted(graph: &Graph, cut: usize) -> Vec<Vec<u8>> {
    let mut executor = open(graph);
    let mut found = Vec::new();
    for _ in 0..cut {
        let item = executor.next().unwrap();
        found.extend(item.map(|item| item.value[0].contiguous().unwrap().to_vec()));
    }
    let state = executor.save().unwrap();
    let mut restored = open(graph);
    restored.restore(&state).unwrap();
    found.extend(records(&mut restored));
    found
}

/// Returns the error of reading one TFRecord file with the content `file`.
fn failure(file: Vec<u8>, compression: Compression) -> String {
    let directory = files(&[file]);
    let mut executor = open(&all(directory.path()).tfrecord(compression).graph().unwrap());
    loop {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("expected an error for a damaged file"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Data);
                let message = error.to_string();
                assert!(message.contains("/0000 at byte "), "{message}");
                return message;
            }
        }
    }
}

proptest! {
    #![proptest_config(rounds(50))]

    #[test]
    fn tfrecords_are_read_from_every_position(
        contents in prop::collection::vec(any_records(), 1..4),
        compression in any_compression(),
        cut in 0usize..10,
    ) {
        let bytes: Vec<_> = contents.iter().map(|records| compressed(&tfrecord(records), compression)).collect();
        let directory = files(&bytes);
        let graph = all(directory.path()).tfrecord(compression).graph().unwrap();
        prop_assert_eq!(records_of(&graph), contents.concat());
        prop_assert_eq!(interrupted(&graph, cut), contents.concat());
    }

    #[test]
    fn a_tfrecord_writer_follows_the_format(records in any_records()) {
        let mut writer = TfRecordWriter::new(Vec::new());
        for record in &records {
            writer.write(record).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap(), tfrecord(&records));
    }

    #[test]
    fn a_truncated_tfrecord_names_its_record(
        records in any_records(),
        last in prop::collection::vec(any::<u8>(), 0..40),
        cut: prop::sample::Index,
    ) {
        let whole = tfrecord(&records);
        let record = tfrecord(&[last]);
        let kept = 1 + cut.index(record.len() - 1);
        let file = [&whole[..], &record[..kept]].concat();
        let message = failure(file, Compression::None);
        let place = format!("lacks {} bytes", if kept < 12 { 12 - kept } else { record.len() - kept });
        prop_assert!(message.contains(&place), "{}", message);
        let at = format!("at byte {}, key \"record {}\"", whole.len(), records.len() + 1);
        prop_assert!(message.contains(&at), "{}", message);
    }

    #[test]
    fn a_flipped_bit_fails_a_tfrecord_file(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..4),
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut file = tfrecord(&records);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        let message = failure(file, Compression::None);
        prop_assert!(message.contains("checksum"), "{}", message);
    }

    #[test]
    fn fixed_records_are_read_from_every_position(
        count in 0usize..6,
        record_bytes in 1usize..9,
        header_bytes in 0usize..5,
        footer_bytes in 0usize..12,
        compression in any_compression(),
        cut in 0usize..8,
    ) {
        let bytes: Vec<u8> = (0..header_bytes + count * record_bytes + footer_bytes).map(|byte| byte as u8).collect();
        let directory = files(&[compressed(&bytes, compression), compressed(&bytes, compression)]);
        let layout = FixedLength {
            record_bytes: record_bytes as u64,
            header_bytes: header_bytes as u64,
            footer_bytes: footer_bytes as u64,
            compression,
        };
        let graph = all(directory.path()).fixed_length_records(layout).graph().unwrap();
        let once: Vec<Vec<u8>> = bytes[header_bytes..bytes.len() - footer_bytes]
            .chunks(record_bytes)
            .map(<[u8]>::to_vec)
            .collect();
        let expected = [once.clone(), once].concat();
        prop_assert_eq!(records_of(&graph), &expected[..]);
        prop_assert_eq!(interrupted(&graph, cut), expected);
    }

    #[test]
    fn a_fractional_number_of_records_is_refused(
        file_bytes in 0usize..40,
        compression in any_compression(),
    ) {
        let layout = FixedLength { record_bytes: 7, header_bytes: 3, footer_bytes: 2, compression };
        let directory = files(&[compressed(&vec![0; file_bytes], compression)]);
        let graph = all(directory.path()).fixed_length_records(layout).graph().unwrap();
        let mut executor = open(&graph);
        let mut read = 0;
        let failed = loop {
            match executor.next() {
                Ok(Some(_)) => read += 1,
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let whole = file_bytes >= 5 && (file_bytes - 5) % 7 == 0;
        prop_assert_eq!(failed.is_none(), whole, "{:?}", failed);
        if whole {
            prop_assert_eq!(read, (file_bytes - 5) / 7);
        }
    }
}

#[test]
fn the_checksum_is_the_one_of_the_standard() {
    // The catalogue of parametrised CRC algorithms lists the check value 0xe3069283 for CRC-32C.
    let mask = |sum: u32| sum.rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(masked_checksum(b"123456789"), mask(0xe306_9283));
}

#[test]
fn an_overlong_length_allocates_nothing() {
    let length = (RECORD_BYTES_MAX + 1).to_le_bytes();
    let file = [&length[..], &masked_checksum(&length).to_le_bytes()].concat();
    assert!(failure(file, Compression::None).contains("the limit is"));
}

#[test]
fn truncated_and_misnamed_compression_is_an_error() {
    let plain = tfrecord(&[vec![1; 500], vec![2; 500]]);
    for compression in [Compression::Gzip, Compression::Zlib] {
        let mut whole = compressed(&plain, compression);
        whole.truncate(whole.len() - 12);
        let message = failure(whole, compression);
        assert!(message.contains("cut off"), "{message}");
        let message = failure(plain.clone(), compression);
        assert!(message.contains("another compression format"), "{message}");
        let message = failure(compressed(&plain, compression), Compression::None);
        assert!(message.contains("has another compression"), "{message}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let directory = files(&[b"/nowhere/at/all\n".to_vec()]);
    let dataset = all(directory.path()).text_lines().tfrecord(Compression::None);
    let error = open(&dataset.graph().unwrap()).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("cannot open /nowhere/at/all"),
        "{error}"
    );
}

#[test]
fn absurd_record_lengths_are_refused() {
    let refused = |record_bytes, header_bytes| {
        let layout = FixedLength {
            record_bytes,
            header_bytes,
            footer_bytes: 0,
            compression: Compression::None,
        };
        let dataset = Dataset::files("*").fixed_length_records(layout);
        dataset.graph().unwrap_err().to_string()
    };
    assert!(refused(0, 0).contains("records of 0 bytes"));
    assert!(refused(1, u64::MAX).contains("the limit is"));
}

#[test]
fn workers_read_their_own_record_files() {
    let contents: Vec<Vec<u8>> = (0..10)
        .map(|file| {
            let records = (0..3).map(|record| format!("Record {record} of file {file}").into_bytes());
            tfrecord(&records.collect::<Vec<_>>())
        })
        .collect();
    let directory = files(&contents);
    let share = Share {
        count: 5,
        index: 3,
        seed: 0,
    };
    let read = |dataset: Dataset| {
        let graph = dataset.graph().unwrap().sharded(ShardBy::Files, share).unwrap();
        let texts = records_of(&graph).into_iter().map(|record| {
            let text = String::from_utf8(record).unwrap();
            text.replace("Record ", "").replace(" of file ", "/")
        });
        texts.collect::<Vec<_>>()
    };
    let files = || all(directory.path());
    let in_turn = ["0/3", "1/3", "2/3", "0/8", "1/8", "2/8"];
    assert_eq!(read(files().tfrecord(Compression::None)), in_turn);
    let one_by_one = files().flat_map(|file| file.tfrecord(Compression::None));
    assert_eq!(read(one_by_one), in_turn);
    let interleaved = files().interleave(10, 1, |file| file.tfrecord(Compression::None));
    assert_eq!(
        read(interleaved.prefetch(4)),
        ["0/3", "0/8", "1/3", "1/8", "2/3", "2/8"]
    );
}
