//! Tests of pictures: decoding is compared with other decoders, and changes with naive code. Invalid
//! pictures are refused.

use std::path::PathBuf;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{ErrorKind, ExecContext, Executor, Tensor};
use millstream_pipeline::graph::{
    ColorJitter, ConstantTensor, Dataset, DecodeImage, Flip, FlipAxis, Graph, OnError, RandomResizedCrop,
    Resize, ResizeMethod,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{context, open};

/// The height of the pictures in the folder, unless a test states another size.
const HEIGHT: u64 = 37;
/// The width of the pictures in the folder, unless a test states another size.
const WIDTH: u64 = 53;

/// The pictures in the folder. Each entry has the name, the number of channels, and the maximum
/// difference of its pixels from another decoder's pixels.
const PICTURES: &[(&str, u8, u8)] = &[
    ("baseline-420.jpg", 3, 0),
    ("baseline-422.jpg", 3, 0),
    ("baseline-444.jpg", 3, 0),
    ("grey.jpg", 1, 0),
    ("low-quality.jpg", 3, 0),
    ("noise-420.jpg", 3, 0),
    ("noise-444.jpg", 3, 0),
    ("optimised.jpg", 3, 0),
    ("progressive.jpg", 3, 5),
    ("restarts.jpg", 3, 0),
    ("grey.png", 1, 0),
    ("grey-alpha.png", 2, 0),
    ("one-bit.png", 1, 0),
    ("palette.png", 3, 0),
    ("rgb.png", 3, 0),
    ("rgba.png", 4, 0),
    ("sixteen-bit.png", 1, 0),
    ("animated.webp", 4, 0),
    ("lossless.webp", 3, 0),
    ("lossless-alpha.webp", 4, 0),
    ("lossy.webp", 3, 3),
];

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/images");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns a dataset of the byte strings `images`.
fn encoded(images: &[Vec<u8>]) -> Dataset {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::Bytes, &[images.len() as u64])).unwrap();
    Dataset::tensor_slices(spec, vec![ConstantTensor::items(images.iter().cloned())])
}

/// Returns `count` pictures `u8[height, width, channels]` whose values are functions of their positions.
fn pictures(count: u64, height: u64, width: u64, channels: u64) -> (Dataset, Vec<Vec<u8>>) {
    let bytes: Vec<u8> = (0..count * height * width * channels)
        .map(|at| (at * 7 % 251) as u8)
        .collect();
    let dims = [count, height, width, channels];
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &dims)).unwrap();
    let each = bytes
        .chunks((height * width * channels) as usize)
        .map(<[u8]>::to_vec);
    let each = each.collect();
    (
        Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)]),
        each,
    )
}

fn decode(channels: u8) -> DecodeImage {
    DecodeImage {
        channels: Some(channels),
        ..DecodeImage::new("")
    }
}

fn settled(tensor: &Tensor) -> (Dtype, Vec<u64>, Vec<u8>) {
    let settled = tensor.settled().unwrap();
    let bytes = settled.contiguous().unwrap().to_vec();
    (settled.dtype(), settled.dims().to_vec(), bytes)
}

/// Returns the first component of every element.
fn yields(graph: &Graph) -> Vec<(Dtype, Vec<u64>, Vec<u8>)> {
    let mut executor = open(graph);
    let spec = executor.spec().components()[0].clone();
    let mut all = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        let (dtype, dims, bytes) = settled(&item.value[0]);
        assert!(
            spec.accepts(dtype, &dims),
            "expected {spec}, found {dtype}{dims:?}"
        );
        all.push((dtype, dims, bytes));
    }
    all
}

fn only(dataset: Dataset) -> (Dtype, Vec<u64>, Vec<u8>) {
    yields(&dataset.graph().unwrap()).pop().unwrap()
}

fn failure(dataset: Dataset) -> String {
    let error = open(&dataset.graph().unwrap()).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value, "{error}");
    error.to_string()
}

fn refusal(dataset: Dataset) -> String {
    match dataset.graph() {
        Err(error) => error.to_string(),
        Ok(graph) => Executor::open(&graph, context()).unwrap_err().to_string(),
    }
}

#[test]
fn pictures_are_decoded_as_other_decoders_do() {
    for (name, channels, tolerance) in PICTURES {
        let (dtype, dims, found) = only(encoded(&[file(name)]).decode_image_with(decode(0)));
        let expected = file(&format!("{name}.raw"));
        assert_eq!(
            (dtype, dims),
            (Dtype::U8, vec![HEIGHT, WIDTH, (*channels).into()]),
            "{name}"
        );
        let furthest = found
            .iter()
            .zip(&expected)
            .map(|(one, other)| one.abs_diff(*other))
            .max();
        assert!(
            found.len() == expected.len() && furthest <= Some(*tolerance),
            "{name}: {furthest:?} off"
        );
    }
    for (name, dims) in [("one-pixel.jpg", [1, 1, 3]), ("narrow.jpg", [37, 3, 3])] {
        let (_, found, pixels) = only(encoded(&[file(name)]).decode_image(""));
        assert_eq!(
            (found, pixels),
            (dims.to_vec(), file(&format!("{name}.raw"))),
            "{name}"
        );
    }
}

#[test]
fn a_picture_gets_the_requested_channels() {
    for (name, own, _) in PICTURES {
        for channels in [0, 1, 3, 4] {
            let (_, dims, _) = only(encoded(&[file(name)]).decode_image_with(decode(channels)));
            let expected = if channels == 0 { *own } else { channels };
            assert_eq!(dims, [HEIGHT, WIDTH, expected.into()], "{name} to {channels}");
        }
    }
    let refused = refusal(encoded(&[Vec::new()]).decode_image_with(decode(2)));
    assert!(refused.contains("2 channels"), "{refused}");
}

#[test]
fn pictures_beyond_the_limit_are_errors() {
    for name in ["baseline-420.jpg", "rgb.png", "lossy.webp"] {
        let small = DecodeImage {
            pixels_max: HEIGHT * WIDTH - 1,
            ..DecodeImage::new("")
        };
        let failed = failure(encoded(&[file(name)]).decode_image_with(small.clone()));
        assert!(failed.contains("more than the 1960 allowed"), "{failed}");
        let skip = DecodeImage {
            on_error: OnError::Skip,
            ..small
        };
        let mut executor = open(&encoded(&[file(name)]).decode_image_with(skip).graph().unwrap());
        assert!(executor.next().unwrap().is_none());
        assert_eq!(executor.skipped(), 1);
    }
}

#[test]
fn a_picture_cut_short_anywhere_is_an_error() {
    for (name, ..) in PICTURES {
        let whole = file(name);
        // The last bytes of a WebP or PNG file may be padding and checksums. The last bytes of an
        // animation may belong to a later picture.
        let end = if *name == "animated.webp" {
            3000
        } else {
            whole.len() - 20
        };
        for length in (0..end).step_by(37) {
            let failed = failure(encoded(&[whole[..length].to_vec()]).decode_image(""));
            assert!(
                failed.contains("corrupt") || failed.contains("empty") || failed.contains("begins with"),
                "{name} cut to {length}: {failed}"
            );
        }
    }
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn a_mutated_picture_decodes_or_fails(
        picture in 0..PICTURES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = file(PICTURES[picture].0);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let limited = DecodeImage { pixels_max: 100_000, ..decode(0) };
        let crop = RandomResizedCrop { seed: Some(3), ..RandomResizedCrop::new("", 8, 9) };
        let dataset = encoded(&[bytes]).decode_image_with(limited);
        for dataset in [dataset.clone(), dataset.random_resized_crop_with(crop)] {
            match open(&dataset.graph().unwrap()).next() {
                Ok(Some(item)) => {
                    let (_, dims, found) = settled(&item.value[0]);
                    prop_assert!(dims[0] * dims[1] <= 100_000);
                    prop_assert_eq!(found.len() as u64, dims.iter().product::<u64>());
                }
                Ok(None) => prop_assert!(false, "expected no skipped element"),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Value, "{}", error),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_picture(head in 0usize..4, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let heads: [&[u8]; 4] = [b"", &[0xff, 0xd8, 0xff], b"\x89PNG\r\n\x1a\n", b"RIFF\xff\xff\0\0WEBP"];
        let bytes = [heads[head], &bytes].concat();
        let error = open(&encoded(&[bytes]).decode_image("").graph().unwrap()).next().unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::Value, "{}", error);
    }

    #[test]
    fn crops_and_flips_match_naive_code(
        (height, width, channels) in (1u64..9, 1u64..9, 1u64..5),
        (top, left, rows, columns) in (0u64..9, 0u64..9, 1u64..9, 1u64..9),
        (mirror, turn) in any::<(bool, bool)>(),
    ) {
        let (dataset, all) = pictures(1, height, width, channels);
        let cropped = dataset.crop("", top as u32, left as u32, rows as u32, columns as u32);
        if top + rows > height || left + columns > width {
            prop_assert!(refusal(cropped).contains("image"));
            return Ok(());
        }
        let mut dataset = cropped;
        if mirror { dataset = dataset.flip_left_right(""); }
        if turn { dataset = dataset.flip_up_down(""); }
        let mut expected = Vec::new();
        for y in 0..rows {
            for x in 0..columns {
                let y = top + if turn { rows - 1 - y } else { y };
                let x = left + if mirror { columns - 1 - x } else { x };
                let at = ((y * width + x) * channels) as usize;
                expected.extend(&all[0][at..at + channels as usize]);
            }
        }
        prop_assert_eq!(only(dataset), (Dtype::U8, vec![rows, columns, channels], expected));
    }
}

proptest! {
    #![proptest_config(rounds(24))]

    #[test]
    fn image_operations_continue_from_saved_positions(cut in 0usize..8, threads in 1u32..3) {
        let files = ["baseline-420.jpg", "rgba.png", "lossy.webp", "progressive.jpg"].map(file);
        let jitter = ColorJitter { seed: Some(3), ..ColorJitter::new("", 0.3, 0.3, 0.3, 0.2) };
        let graph = encoded(&files)
            .decode_image("").parallel(threads)
            .random_resized_crop_with(RandomResizedCrop { seed: Some(1), ..RandomResizedCrop::new("", 20, 24) })
            .parallel(threads)
            .random_crop("", 16, 16, Some(5)).parallel(threads)
            .random_flip_left_right("", Some(2)).parallel(threads)
            .color_jitter(jitter).parallel(threads)
            .normalize("", [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]).parallel(threads)
            .hwc_to_chw("").parallel(threads)
            .repeat(Some(2));
        for graph in [graph.clone().graph().unwrap(), graph.batch(3, false).graph().unwrap()] {
            let uninterrupted = yields(&graph);
            let mut executor = open(&graph);
            let mut found = Vec::new();
            while found.len() < cut && let Some(item) = executor.next().unwrap() {
                found.push(settled(&item.value[0]));
            }
            let state = executor.save().unwrap();
            let mut restored = open(&graph);
            restored.restore(&state).unwrap();
            while let Some(item) = restored.next().unwrap() {
                found.push(settled(&item.value[0]));
            }
            prop_assert_eq!(found, uninterrupted);
        }
    }
}

#[test]
fn pixelwise_operations_match_naive_code() {
    let (dataset, all) = pictures(1, 5, 7, 3);
    let (dtype, dims, found) = only(
        dataset
            .clone()
            .normalize("", [0.5], [0.25, 0.5, 1.0])
            .hwc_to_chw(""),
    );
    assert_eq!((dtype, dims), (Dtype::F32, vec![3, 5, 7]));
    for (at, found) in found.chunks(4).enumerate() {
        let (channel, pixel) = (at / 35, at % 35);
        let value = f32::from(all[0][pixel * 3 + channel]) / 255.0;
        let expected = (value - 0.5) / [0.25, 0.5, 1.0][channel];
        assert!((f32::from_le_bytes(found.try_into().unwrap()) - expected).abs() < 1e-5);
    }
    let (_, dims, one) = only(dataset.clone().rgb_to_grayscale("", 1));
    assert_eq!(dims, [5, 7, 1]);
    let (_, dims, three) = only(dataset.rgb_to_grayscale("", 3));
    assert_eq!(dims, [5, 7, 3]);
    for (pixel, grey) in one.iter().enumerate() {
        let [r, g, b] = [0, 1, 2].map(|channel| f64::from(all[0][pixel * 3 + channel]));
        assert!((0.299 * r + 0.587 * g + 0.114 * b - f64::from(*grey)).abs() <= 0.51);
        assert_eq!(three[pixel * 3..][..3], [*grey; 3]);
    }
}

#[test]
fn a_resized_picture_keeps_type_and_channels() {
    let methods = [
        ResizeMethod::Nearest,
        ResizeMethod::Bilinear,
        ResizeMethod::Bicubic,
        ResizeMethod::Area,
        ResizeMethod::Lanczos3,
    ];
    for channels in 1..5 {
        for (method, antialias) in methods.into_iter().zip([true, false].into_iter().cycle()) {
            let resize = Resize {
                method: Some(method),
                antialias: Some(antialias),
                ..Resize::new("", 4, 9)
            };
            let (dataset, _) = pictures(2, 8, 6, channels);
            let floats = dataset
                .clone()
                .normalize("", [0.0], [1.0])
                .resize_with(resize.clone());
            assert_eq!(only(floats).0, Dtype::F32);
            let (dtype, dims, _) = only(dataset.resize_with(resize));
            assert_eq!((dtype, dims), (Dtype::U8, vec![4, 9, channels]));
        }
    }
}

#[test]
fn chance_flips_half_and_changes_every_pass() {
    let (dataset, all) = pictures(50, 1, 2, 1);
    let flipped = |dataset: Dataset| -> Vec<bool> {
        let found = yields(&dataset.graph().unwrap());
        let originals = all.iter().cycle();
        found
            .iter()
            .zip(originals)
            .map(|(found, original)| found.2 != *original)
            .collect()
    };
    let passes = flipped(
        dataset
            .clone()
            .random_flip_left_right("", Some(3))
            .repeat(Some(2)),
    );
    let count = passes.iter().filter(|flipped| **flipped).count();
    // The expected number is 50, with a standard deviation of 5.
    assert!((25..75).contains(&count), "{count}");
    assert_ne!(passes[..50], passes[50..]);
    assert_eq!(
        passes,
        flipped(
            dataset
                .clone()
                .random_flip_left_right("", Some(3))
                .repeat(Some(2))
        )
    );
    for (probability, expected) in [(0.0, false), (1.0, true)] {
        let flip = Flip {
            component: String::new(),
            axis: FlipAxis::LeftRight,
            probability: Some(probability),
            seed: None,
        };
        assert_eq!(flipped(dataset.clone().flip_with(flip)), [expected; 50]);
    }
}

#[test]
fn seeded_chance_ignores_parallelism() {
    let (dataset, _) = pictures(20, 6, 6, 3);
    let all = |task_id: u64, threads: u32, seed: Option<u64>| {
        let jitter = ColorJitter {
            seed,
            ..ColorJitter::new("", 0.5, 0.5, 0.5, 0.5)
        };
        let dataset = dataset.clone().random_crop("", 4, 4, seed).parallel(threads);
        let dataset = dataset.color_jitter(jitter).parallel(threads);
        let context = ExecContext { task_id, ..context() };
        let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
        let mut found = Vec::new();
        while let Some(item) = executor.next().unwrap() {
            found.push(settled(&item.value[0]).2);
        }
        found
    };
    assert_eq!(all(1, 1, Some(7)), all(2, 2, Some(7)));
    assert_ne!(all(1, 1, Some(7)), all(1, 1, Some(8)));
    assert_ne!(all(1, 1, None), all(2, 1, None));
    assert_eq!(all(1, 1, None), all(1, 2, None));
}

#[test]
fn unfit_pictures_are_refused_by_name() {
    let (dataset, _) = pictures(1, 4, 5, 2);
    let wants = |dataset: Dataset, what: &str| {
        let refused = refusal(dataset);
        assert!(refused.contains(what), "{refused}");
    };
    wants(dataset.clone().center_crop("", 5, 5), "image");
    wants(
        dataset
            .clone()
            .color_jitter(ColorJitter::new("", 0.1, 0.0, 0.0, 0.0)),
        "1 or 3",
    );
    wants(dataset.clone().rgb_to_grayscale("", 1), "u8[height, width, 3]");
    wants(dataset.clone().rgb_to_grayscale("", 2), "2 channels");
    wants(
        dataset.clone().normalize("", [0.1; 3], [1.0]),
        "means and deviations",
    );
    wants(
        dataset.clone().normalize("", [0.1; 3], [1.0; 2]),
        "3 means and 2 deviations",
    );
    wants(dataset.clone().normalize("", [], [1.0]), "0 numbers");
    wants(dataset.clone().normalize("", [0.0], [0.0]), "deviation of 0");
    wants(dataset.clone().normalize("", [f32::NAN], [1.0]), "mean NaN");
    wants(dataset.clone().central_crop("", 0.0), "above 0");
    wants(dataset.clone().central_crop("", f64::NAN), "above 0");
    wants(dataset.clone().resize("", 0, 4), "size 0 x 4");
    wants(dataset.clone().resize("", 4, 1 << 17), "pixels a side");
    wants(dataset.clone().crop("", 0, 0, 0, 1), "size 0 x 1");
    wants(dataset.clone().crop("", u32::MAX, 0, 1, 1), "beyond");
    wants(
        dataset
            .clone()
            .color_jitter(ColorJitter::new("", -2.0, 0.0, 0.0, 0.0)),
        "brightness",
    );
    wants(
        dataset
            .clone()
            .color_jitter(ColorJitter::new("", 0.0, f64::NAN, 0.0, 0.0)),
        "contrast",
    );
    wants(
        dataset
            .clone()
            .color_jitter(ColorJitter::new("", 0.0, 0.0, 0.0, 0.6)),
        "hue",
    );
    wants(Dataset::range(0, 3, 1).resize("", 4, 4), "an image");
    wants(Dataset::range(0, 3, 1).decode_image(""), "a byte string");
    wants(dataset.resize("other", 4, 4), "other");
    // Some errors depend on the pixels of a picture, so the analysis cannot find these errors.
    let picture = || encoded(&[file("grey.png")]).decode_image_with(decode(0));
    let failed = failure(picture().random_crop("", 38, 10, None));
    assert!(
        failed.contains("random_crop") && failed.contains("too small"),
        "{failed}"
    );
    let failed = failure(picture().normalize("", [0.1; 3], [1.0; 3]));
    assert!(failed.contains("3 channels"), "{failed}");
    let failed = failure(picture().rgb_to_grayscale("", 3));
    assert!(failed.contains("3 channels"), "{failed}");
}

#[test]
fn every_function_of_pictures_survives_its_encoding() {
    let (dataset, _) = pictures(2, 40, 40, 3);
    let jitter = ColorJitter {
        hue: Some((-0.1, 0.2)),
        seed: Some(9),
        ..ColorJitter::new("", 0.1, 0.2, 0.0, 0.0)
    };
    let graph = dataset
        .crop("", 1, 2, 38, 36)
        .central_crop("", 0.9)
        .center_crop("", 30, 30)
        .random_crop("", 29, 28, Some(1))
        .random_resized_crop_with(RandomResizedCrop {
            method: Some(ResizeMethod::Lanczos3),
            antialias: Some(false),
            ..RandomResizedCrop::new("", 20, 21)
        })
        .resize_with(Resize {
            method: Some(ResizeMethod::Area),
            ..Resize::new("", 16, 17)
        })
        .flip_up_down("")
        .random_flip_left_right("", Some(4))
        .random_flip_up_down("", None)
        .color_jitter(jitter)
        .rgb_to_grayscale("", 3)
        .normalize("", [0.1, 0.2, 0.3], [1.0])
        .hwc_to_chw("")
        .graph()
        .unwrap();
    let decoded = Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap();
    assert_eq!(decoded, graph);
    assert_eq!(yields(&decoded), yields(&graph));
    let decode = encoded(&[file("rgba.png")])
        .decode_image_with(decode(4))
        .graph()
        .unwrap();
    assert_eq!(Graph::from_bytes(&decode.to_bytes().unwrap()).unwrap(), decode);
}

proptest! {
    #![proptest_config(rounds(32))]

    #[test]
    fn a_decoded_crop_equals_the_whole_crop(
        picture in 0..PICTURES.len(),
        channels in prop::sample::select(vec![0u8, 1, 3, 4]),
        (top, left) in (0u32..30, 0u32..40),
        (height, width) in (1u32..8, 1u32..14),
        kind in 0..5,
        seed: u64,
    ) {
        let decoded = encoded(&[file(PICTURES[picture].0)]).decode_image_with(decode(channels));
        // Maps with different schedules are not fused.
        for (together, apart) in [(1, 2), (2, 1)] {
            let [one, two] = [together, apart].map(|threads| {
                let decoded = decoded.clone().parallel(together);
                let dataset = match kind {
                    0 => decoded.crop("", top, left, height, width),
                    1 => decoded.central_crop("", f64::from(width) / 14.0),
                    2 => decoded.center_crop("", height, width),
                    3 => decoded.random_crop("", height, width, Some(seed)),
                    _ => decoded.random_resized_crop_with(RandomResizedCrop {
                        seed: Some(seed),
                        ..RandomResizedCrop::new("", height, width)
                    }),
                };
                only(dataset.parallel(threads))
            });
            prop_assert_eq!(one, two);
        }
    }
}

#[test]
fn broken_pictures_are_omitted_and_small_ones_fail() {
    let skip = DecodeImage {
        on_error: OnError::Skip,
        ..DecodeImage::new("")
    };
    let whole = file("baseline-420.jpg");
    let broken = whole[..whole.len() / 2].to_vec();
    let crop = |images: &[Vec<u8>], height: u32| {
        let dataset = encoded(images)
            .decode_image_with(skip.clone())
            .center_crop("", height, 8);
        open(&dataset.graph().unwrap())
    };
    let mut executor = crop(&[broken.clone(), whole.clone()], 8);
    assert!(executor.next().unwrap().is_some());
    assert!(executor.next().unwrap().is_none());
    assert_eq!(executor.skipped(), 1);
    let mut executor = crop(&[broken, whole], 50);
    let error = executor.next().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("center_crop: the image of 53 x 37 pixels is too small"),
        "{error}"
    );
    assert_eq!(executor.skipped(), 1, "the damage is found before the size");
}
