//! Tests of files that claim far more than they contain. Readers must refuse such files before
//! allocating the claimed memory. The test runs in a separate process, whose memory use the kernel
//! measures.

use std::path::Path;
use std::process::Command;

use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{Columns, Compression, Dataset, Numpy, OnError, Table};

use crate::support::context;

/// The environment variable that tells a child process of this test to read the files.
const ROLE: &str = "MILLSTREAM_BOMBS";

/// The maximum memory in KiB that reading one of the files may take, for buffers and for tables of
/// libraries.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// A function that reads the files of a dataset of paths.
type Reader = fn(Dataset) -> Dataset;

/// Returns the files. Each file claims a tebibyte of data, or pictures of billions of pixels.
fn bombs() -> Vec<(&'static str, Vec<u8>, Reader)> {
    let tfrecord: Reader = |files| files.tfrecord(Compression::None);
    let picture: Reader = |files| files.webdataset(["png"], OnError::Raise).decode_image("png");
    vec![
        ("tar", tar(1 << 40, "a.cls", b"x"), |files| {
            files.webdataset(["cls"], OnError::Raise)
        }),
        ("tfrecord", record(1 << 40), tfrecord),
        ("tfrecord.gz", gzipped(&record(1 << 40)), |files| {
            files.tfrecord(Compression::Gzip)
        }),
        ("npy", npy(1 << 40), |files| {
            files.npy(Numpy::whole(Columns::all()))
        }),
        ("npz", npz(&npy(1 << 40)), |files| {
            files.npz(Numpy::whole(Columns::all()))
        }),
        ("arrow", arrow(0x7fff_fff0), |files| {
            files.arrow(Table::rows(Columns::all()))
        }),
        ("png", tar(33, "a.png", &png(60_000)), picture),
        ("jpeg", tar(21, "a.png", &jpeg(65_000)), picture),
    ]
}

/// Returns a tar archive with one file, whose header claims `size` bytes.
fn tar(size: u64, name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    // Tar headers write sizes of 8 GiB and more as numbers in base 256.
    header[124] = 0x80;
    header[128..136].copy_from_slice(&size.to_be_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.extend(content);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

/// Returns the length of a TFRecord record with its correct checksum, and only a few bytes of the
/// record.
fn record(length: u64) -> Vec<u8> {
    let length = length.to_le_bytes();
    let code = crc32c::crc32c(&length).rotate_right(15).wrapping_add(0xa282_ead8);
    [&length[..], &code.to_le_bytes(), b"some of it"].concat()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn npy(items: u64) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({items},), }}");
    let text = format!("{text:<117}\n");
    let length = u16::try_from(text.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), &[0; 64]].concat()
}

fn npz(array: &[u8]) -> Vec<u8> {
    use std::io::{Cursor, Write};
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("x.npy", options).unwrap();
    archive.write_all(array).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Returns an Arrow stream whose first message claims `bytes` bytes.
fn arrow(bytes: u32) -> Vec<u8> {
    [&u32::MAX.to_le_bytes()[..], &bytes.to_le_bytes(), &[0; 64]].concat()
}

/// Returns the beginning of a PNG picture that claims `side` by `side` pixels.
fn png(side: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend([side.to_be_bytes(), side.to_be_bytes()].concat());
    chunk.extend([16, 6, 0, 0, 0]);
    let mut crc = flate2::Crc::new();
    crc.update(&chunk);
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\x0d",
        &chunk[..],
        &crc.sum().to_be_bytes(),
    ]
    .concat()
}

/// Returns the beginning of a progressive JPEG picture that claims `side` by `side` pixels.
fn jpeg(side: u16) -> Vec<u8> {
    let [high, low] = side.to_be_bytes();
    vec![
        0xff, 0xd8, 0xff, 0xc2, 0, 17, 8, high, low, high, low, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0,
    ]
}

#[test]
fn files_that_claim_too_much_take_no_memory() {
    if std::env::var_os(ROLE).is_some() {
        return read_all();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "bombs::files_that_claim_too_much_take_no_memory",
            "--nocapture",
        ])
        .env(ROLE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Vec<(&str, u64)> = said
        .lines()
        .filter_map(|line| line.strip_prefix("growth_kib ")?.split_once(' '))
        .map(|(name, figure)| (name, figure.parse().unwrap()))
        .collect();
    assert_eq!(figures.len(), bombs().len());
    for (name, growth_kib) in &figures {
        assert!(
            *growth_kib <= GROWTH_KIB_MAX,
            "{name}: {growth_kib} KiB; {figures:?}"
        );
    }
}

/// Reads each file until its error, and prints the maximum growth of this process's memory.
#[expect(
    clippy::print_stdout,
    reason = "the child process reports its results to the parent on standard output"
)]
fn read_all() {
    let directory = tempfile::tempdir().unwrap();
    println!();
    for (name, bytes, reader) in bombs() {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let before = begin();
        refused(&path, reader);
        println!("growth_kib {name} {}", status_kib("VmHWM").saturating_sub(before));
    }
}

/// Resets the kernel's record of the peak memory, and returns the present memory of the process in KiB.
fn begin() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    status_kib("VmRSS")
}

fn refused(path: &Path, reader: Reader) {
    let dataset = reader(Dataset::files(path.to_str().unwrap()));
    // Formats that describe themselves are read already when the dataset is made or opened.
    let Ok(graph) = dataset.graph() else {
        return;
    };
    let Ok(mut executor) = Executor::open(&graph, context()) else {
        return;
    };
    let error = match executor.next() {
        Ok(item) => panic!("{}: {item:?}", path.display()),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
}

fn status_kib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let figure = line.and_then(|line| line.split_whitespace().next());
    figure.and_then(|figure| figure.parse().ok()).unwrap()
}
