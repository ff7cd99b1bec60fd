//! Tests of WebDataset shards and images.

use std::path::Path;

use millstream_element::{Element, HeapAlloc, Layout, Origin, PackWriter};
use millstream_pipeline::exec::{ErrorKind, ExecContext, Executor, Stop};
use millstream_pipeline::graph::{Dataset, DecodeImage, OnError, RandomResizedCrop};
use tempfile::TempDir;

use crate::support::{context, jpeg, open, text};

/// Writes a shard with the samples `keys`. Each has a picture `<key>.jpg` of `2 + key` x 3 blocks, and
/// a `<key>.cls`.
fn write_shard(path: &Path, keys: std::ops::Range<u16>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut append = |name: String, data: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, data).unwrap();
    };
    for key in keys {
        let picture = jpeg::encode(2 + key, 3, |y, x| (40 * y + 20 * x + key) as u8);
        append(format!("train/{key:04}.jpg"), &picture);
        append(
            format!("train/{key:04}.cls"),
            format!("{}\n", key * 10).as_bytes(),
        );
    }
    let bytes = builder.into_inner().unwrap();
    std::fs::write(path, &bytes).unwrap();
    bytes
}

/// Makes a directory of three shards with two samples each, and returns the directory and a pattern of
/// the shards.
fn shards() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for shard in 0..3 {
        write_shard(
            &directory.path().join(format!("{shard}.tar")),
            shard * 2..shard * 2 + 2,
        );
    }
    let pattern = format!("{}/*.tar", directory.path().display());
    (directory, pattern)
}

fn samples(pattern: &str, on_error: OnError) -> Dataset {
    Dataset::files(pattern).webdataset(["jpg", "cls"], on_error)
}

fn pictures(pattern: &str, threads: u32) -> Dataset {
    let crop = RandomResizedCrop {
        scale_min: 0.2,
        scale_max: 1.0,
        ratio_min: 0.75,
        ratio_max: 1.33,
        seed: Some(5),
        ..RandomResizedCrop::new("jpg", 16, 16)
    };
    samples(pattern, OnError::Raise)
        .decode_image("jpg")
        .parallel(threads)
        .random_resized_crop_with(crop)
        .parallel(threads)
        .parse_int("cls")
        .parallel(threads)
        .select([("jpg", "image"), ("cls", "label"), ("__key__", "key")])
}

/// Returns the keys of the elements, and the error at the end if one occurred.
fn keys(executor: &mut Executor) -> (Vec<String>, Option<String>) {
    let mut keys = Vec::new();
    loop {
        match executor.next() {
            Ok(Some(item)) => {
                keys.push(String::from_utf8(text(item.value.last().unwrap()).to_vec()).unwrap())
            }
            Ok(None) => return (keys, None),
            Err(error) => {
                let kind = if error.to_string().contains("No such file") {
                    ErrorKind::NotFound
                } else if error.to_string().starts_with("webdataset") {
                    ErrorKind::Data
                } else {
                    ErrorKind::Value
                };
                assert_eq!(error.kind(), kind, "{error}");
                return (keys, Some(error.to_string()));
            }
        }
    }
}

#[test]
fn pictures_labels_and_keys_come_out_in_batches() {
    let (_directory, pattern) = shards();
    for threads in [1, 2] {
        let mut executor = open(&pictures(&pattern, threads).batch(4, false).graph().unwrap());
        let layout = Layout::new(executor.spec().clone()).unwrap();
        let (mut pack, taken) = PackWriter::open(&HeapAlloc, 1 << 20, 10).unwrap();
        let filled = executor.write(&layout, &mut pack, 10).unwrap();
        assert_eq!((filled.count, filled.stop), (2, Stop::End));
        let mut found = Vec::new();
        for slot in taken.take(10, u64::MAX).unwrap().slots() {
            let element = Element::open(slot, &layout, Origin::Foreign).unwrap();
            let image = element.named("image").unwrap();
            let rows = image.dims()[0];
            assert_eq!(image.dims(), [rows, 16, 16, 3]);
            let labels = element
                .named("label")
                .unwrap()
                .as_slice::<i64>()
                .unwrap()
                .to_vec();
            let keys = element.named("key").unwrap().strings().unwrap();
            assert_eq!(keys.len() as u64, rows);
            for (index, (key, label)) in keys.iter_str().zip(labels).enumerate() {
                let pixels = image
                    .bytes()
                    .chunks_exact(16 * 16 * 3)
                    .nth(index)
                    .unwrap()
                    .to_vec();
                assert!(pixels.iter().any(|pixel| *pixel != 0));
                found.push((key.unwrap().to_owned(), label));
            }
        }
        let expected: Vec<_> = (0..6).map(|key| (format!("train/{key:04}"), key * 10)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn seeded_crops_agree_between_workers() {
    let (_directory, pattern) = shards();
    let pixels = |threads, task_id, passes| {
        let graph = pictures(&pattern, threads).repeat(Some(passes)).graph().unwrap();
        let mut executor = Executor::open(&graph, ExecContext { task_id, ..context() }).unwrap();
        let mut all = Vec::new();
        while let Some(item) = executor.next().unwrap() {
            all.push(item.value[0].settled().unwrap().contiguous().unwrap().to_vec());
        }
        all
    };
    let once = pixels(1, 1, 1);
    assert_eq!(once, pixels(2, 9, 1));
    let twice = pixels(1, 1, 2);
    assert_eq!(twice[..6], once);
    assert_ne!(twice[6..], once);
}

#[test]
fn decoded_pixels_are_the_pictures() {
    let (_directory, pattern) = shards();
    let mut executor = open(
        &samples(&pattern, OnError::Raise)
            .decode_image("jpg")
            .graph()
            .unwrap(),
    );
    let item = executor.next().unwrap().unwrap();
    assert_eq!(item.value[0].dims(), [16, 24, 3]);
    let pixels = item.value[0].contiguous().unwrap();
    // The pixel in the middle of the block in row 1, column 2.
    let at = (12 * 24 + 20) * 3;
    assert_eq!(pixels[at..at + 3], [80; 3]);
}

#[test]
fn a_truncated_shard_names_its_last_key() {
    let (directory, pattern) = shards();
    let path = directory.path().join("1.tar");
    let bytes = std::fs::read(&path).unwrap();
    // The cut is within the picture of the second sample: headers and labels take 512 bytes each.
    let second = bytes.windows(8).position(|window| window == b"0003.jpg").unwrap() - "train/".len();
    std::fs::write(&path, &bytes[..second + 600]).unwrap();
    let (found, error) = keys(&mut open(&samples(&pattern, OnError::Raise).graph().unwrap()));
    let error = error.unwrap();
    assert_eq!(found, ["train/0000", "train/0001", "train/0002"]);
    let place = format!("1.tar at byte {}, key \"train/0003\"", second + 600);
    assert!(error.contains("truncated") && error.contains(&place), "{error}");
    let mut skipping = open(&samples(&pattern, OnError::Skip).graph().unwrap());
    let (found, error) = keys(&mut skipping);
    assert_eq!(
        (found.len(), found.last().unwrap().as_str(), error),
        (5, "train/0005", None)
    );
    assert_eq!(skipping.skipped(), 1);
}

#[test]
fn a_corrupt_picture_names_its_key() {
    let (directory, pattern) = shards();
    let path = directory.path().join("1.tar");
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.windows(8).position(|window| window == b"0003.jpg").unwrap() - "train/".len();
    // Overwrites the frame header of the picture, which follows the start marker and the quantisation
    // table.
    bytes[second + 512 + 2 + 69..][..8].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    for threads in [1, 2] {
        let decode = |on_error| {
            let decode = DecodeImage {
                pixels_max: 1 << 20,
                on_error,
                ..DecodeImage::new("jpg")
            };
            open(
                &samples(&pattern, OnError::Raise)
                    .decode_image_with(decode)
                    .parallel(threads)
                    .graph()
                    .unwrap(),
            )
        };
        let (found, error) = keys(&mut decode(OnError::Raise));
        let error = error.unwrap();
        assert_eq!(found.len(), 3);
        let place = format!("1.tar at byte {second}, key \"train/0003\"");
        assert!(
            error.starts_with("decode_image: the JPEG is corrupt") && error.contains(&place),
            "{error}"
        );
        let mut skipping = decode(OnError::Skip);
        let (found, error) = keys(&mut skipping);
        assert_eq!((found.len(), error, skipping.skipped()), (5, None, 1));
    }
}

#[test]
fn an_incomplete_sample_is_named_or_skipped() {
    let (_directory, pattern) = shards();
    let with_txt = |on_error| {
        Dataset::files(&pattern)
            .webdataset(["jpg", "txt"], on_error)
            .graph()
            .unwrap()
    };
    let (found, error) = keys(&mut open(&with_txt(OnError::Raise)));
    assert!(found.is_empty() && error.unwrap().contains("no file with the extension \"txt\""));
    let mut skipping = open(&with_txt(OnError::Skip));
    assert_eq!((keys(&mut skipping), skipping.skipped()), ((vec![], None), 6));
}

#[test]
fn a_shard_that_vanishes_is_named() {
    let (directory, pattern) = shards();
    let mut executor = open(&samples(&pattern, OnError::Raise).graph().unwrap());
    std::fs::remove_file(directory.path().join("1.tar")).unwrap();
    let (found, error) = keys(&mut executor);
    assert_eq!(found.len(), 2);
    assert!(error.unwrap().contains("1.tar"));
}

#[test]
fn a_shard_continues_where_saved() {
    let (_directory, pattern) = shards();
    let graph = pictures(&pattern, 2).shuffle(3, Some(1)).graph().unwrap();
    let (expected, _) = keys(&mut open(&graph));
    for cut in 0..6 {
        let mut executor = open(&graph);
        let mut found: Vec<String> = Vec::new();
        for _ in 0..cut {
            let item = executor.next().unwrap().unwrap();
            found.push(String::from_utf8(text(item.value.last().unwrap()).to_vec()).unwrap());
        }
        let state = executor.save().unwrap();
        let mut restored = open(&graph);
        restored.restore(&state).unwrap();
        found.extend(keys(&mut restored).0);
        assert_eq!(found, expected, "saved after {cut}");
    }
}

#[test]
fn a_garbled_shard_is_named_or_counted() {
    let (directory, pattern) = shards();
    let path = directory.path().join("1.tar");
    let mut bytes = std::fs::read(&path).unwrap();
    // Damages the tar header of the second sample's picture. A reader cannot trust anything after that
    // header.
    let second = bytes.windows(8).position(|window| window == b"0003.jpg").unwrap() - "train/".len();
    bytes[second + 20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    std::fs::write(directory.path().join("2.tar"), b"no archive at all").unwrap();
    let (found, error) = keys(&mut open(&samples(&pattern, OnError::Raise).graph().unwrap()));
    let error = error.unwrap();
    assert_eq!(found, ["train/0000", "train/0001"]);
    let place = format!("1.tar at byte {second}, key \"train/0002\"");
    assert!(error.contains("checksum") && error.contains(&place), "{error}");
    for passes in [1, 3] {
        let graph = samples(&pattern, OnError::Skip)
            .repeat(Some(passes))
            .graph()
            .unwrap();
        let mut skipping = open(&graph);
        let (found, error) = keys(&mut skipping);
        assert_eq!((found.len() as u64, error), (2 * passes, None));
        assert_eq!(skipping.skipped(), 2 * passes);
    }
}

#[test]
fn skips_are_counted_across_a_restore() {
    let (directory, pattern) = shards();
    std::fs::write(directory.path().join("0.tar"), b"no archive at all").unwrap();
    std::fs::write(directory.path().join("2.tar"), b"no archive at all").unwrap();
    let graph = samples(&pattern, OnError::Skip).graph().unwrap();
    let mut executor = open(&graph);
    executor.next().unwrap().unwrap();
    assert_eq!(executor.skipped(), 1);
    let state = executor.save().unwrap();
    let mut restored = open(&graph);
    restored.restore(&state).unwrap();
    assert_eq!(keys(&mut restored), (vec!["train/0003".to_owned()], None));
    assert_eq!(restored.skipped(), 2);
}
