//! Samples for the tests of `promises`: a small dataset for every operation, with the elements that a
//! naive model yields. A new operation needs a sample here.

use std::path::Path;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::save;
use millstream_pipeline::graph::{
    Buckets, ConstantTensor, Dataset, Options, Packing, Padding, Params, Window,
};

use super::{Chain, Model, Step, context, scalar};

/// A dataset with its expected elements.
pub(crate) struct Sample {
    /// The name of the sample, for messages.
    pub(crate) name: String,
    pub(crate) dataset: Dataset,
    /// The expected elements, rendered as text. `None` if other tests compare the elements with a
    /// model.
    pub(crate) yields: Option<Vec<String>>,
}

/// Returns the samples of all operations. Writes their files to `directory`.
pub(crate) fn samples(directory: &Path) -> Vec<Sample> {
    let mut all = chains();
    all.extend(sources());
    all.extend(groups());
    all.extend(texts());
    all.extend(readers(directory));
    all
}

fn sample<T: ToString>(name: &str, dataset: Dataset, yields: impl IntoIterator<Item = T>) -> Sample {
    let yields = yields.into_iter().map(|element| element.to_string()).collect();
    Sample {
        name: name.to_owned(),
        dataset,
        yields: Some(yields),
    }
}

fn unchecked(name: &str, dataset: Dataset) -> Sample {
    Sample {
        name: name.to_owned(),
        dataset,
        yields: None,
    }
}

fn rendered_model(model: &Model) -> String {
    match model {
        Model::Scalar(value) => value.to_string(),
        Model::Rows(rows) => {
            let rows: Vec<String> = rows.iter().map(rendered_model).collect();
            format!("[{}]", rows.join(" "))
        }
    }
}

/// Returns the samples of all operations that the naive model of chains covers.
fn chains() -> Vec<Sample> {
    let steps = [elementwise(), counting(), expanding(), combining()];
    let mut samples: Vec<Sample> = steps.into_iter().flatten().map(chain_sample).collect();
    samples.extend([batch(4, true), rebatch(4, [3], false)].map(|step| {
        let chain = Chain {
            count: 10,
            steps: vec![step, Step::Unbatch],
        };
        sample(
            "unbatch",
            chain.dataset(),
            chain.model().iter().map(rendered_model),
        )
    }));
    samples.extend(drawing().into_iter().map(|step| {
        let name = format!("{step:?}");
        let chain = Chain {
            count: 5,
            steps: vec![step],
        };
        unchecked(&name, chain.dataset())
    }));
    let range = || Dataset::range(0, 9, 1);
    let odd = |number: Dataset| number.map("modulo", Params::encode(&2i64).unwrap());
    let kept = range().rejection_resample(odd, [2.0, 2.0], Some(vec![0.5, 0.5]), None);
    let all = (0..9).map(|number| format!("{} {number}", number % 2));
    samples.push(sample("rejection_resample", kept, all));
    let drawn = range().rejection_resample(odd, [2.0, 1.0], None, Some(3));
    samples.push(unchecked("rejection_resample by counts", drawn));
    let stated = Dataset::range(0, 4, 1).assert_cardinality(4);
    samples.push(sample("assert_cardinality", stated, 0..4));
    let options = Dataset::range(0, 4, 1).with_options(Options::default());
    samples.push(sample("options", options, 0..4));
    samples
}

fn add(amount: i64, parallel: Option<u32>) -> Step {
    Step::Add { amount, parallel }
}

fn batch(size: u64, drop_remainder: bool) -> Step {
    Step::Batch { size, drop_remainder }
}

fn rebatch<const N: usize>(batch: u64, sizes: [u64; N], drop_remainder: bool) -> Step {
    Step::Rebatch {
        batch,
        sizes: sizes.to_vec(),
        drop_remainder,
    }
}

fn other() -> Chain {
    Chain {
        count: 3,
        steps: vec![add(70, None)],
    }
}

/// Returns steps that transform each element separately.
fn elementwise() -> Vec<Step> {
    let ignore = |modulus, parallel| Step::Ignore { modulus, parallel };
    vec![
        add(1, None),
        add(2, Some(3)),
        Step::KeepIfSumModulo { modulus: 3, rest: 1 },
        Step::AddExpr(3),
        Step::KeepExpr { modulus: 3, rest: 1 },
        ignore(3, None),
        ignore(2, Some(2)),
        Step::Measured,
        Step::Prefetch(3),
    ]
}

/// Returns steps whose result depends on the order or the number of elements.
fn counting() -> Vec<Step> {
    vec![
        batch(4, false),
        rebatch(4, [3, 1], false),
        rebatch(3, [7], true),
        Step::Repeat(3),
        Step::Unique(4),
        Step::Scan(3),
        Step::Cache,
        Step::Reduce(4),
        Step::Take(4),
        Step::Skip(4),
        Step::Shard { count: 3, index: 1 },
        Step::Enumerate(5),
        Step::TakeWhileSumBelow(6),
        Step::TakeWhileExpr(6),
    ]
}

/// Returns steps that turn some elements into several elements.
fn expanding() -> Vec<Step> {
    let interleave = |length, block, parallel| Step::Interleave {
        length,
        block,
        parallel,
        steps: vec![Step::Repeat(3)],
    };
    let window = Window {
        size: 3,
        shift: 2,
        stride: 2,
        drop_remainder: false,
    };
    let groups = Step::GroupByWindow {
        modulus: 3,
        size: 2,
        steps: vec![Step::Repeat(2)],
    };
    let steps = vec![add(1, None)];
    vec![
        Step::FlatMap(vec![Step::Repeat(2), add(1, None)]),
        groups,
        Step::Window { window, steps },
        interleave(3, 2, 1),
        interleave(2, 1, 2),
    ]
}

/// Returns steps that also read another dataset.
fn combining() -> Vec<Step> {
    let choose = Step::Choose {
        choices: 7,
        repeat: Some(2),
        other: other(),
        stop_on_empty: false,
    };
    vec![Step::Zip(other()), Step::Concatenate(other()), choose]
}

/// Returns steps that yield their elements in a random order.
fn drawing() -> Vec<Step> {
    let (buffer, seed) = (4, 1);
    vec![
        Step::Shuffle { buffer, seed },
        Step::ShuffleAndRepeat {
            buffer,
            count: 3,
            seed,
        },
        Step::Sample { seed, other: other() },
    ]
}

fn chain_sample(step: Step) -> Sample {
    let chain = Chain {
        count: 10,
        steps: vec![step],
    };
    let yields = chain.model();
    let name = format!("{:?}", chain.steps);
    sample(&name, chain.dataset(), yields.iter().map(rendered_model))
}

fn sources() -> Vec<Sample> {
    let numbers = |values: &[i64]| {
        ConstantTensor::fixed(
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect::<Vec<u8>>(),
        )
    };
    let pair = ElementSpec::dict([
        ("a", TensorSpec::fixed(Dtype::I64, &[3])),
        ("b", TensorSpec::fixed(Dtype::String, &[3])),
    ])
    .unwrap();
    let tensors = || vec![numbers(&[4, 5, 6]), ConstantTensor::items(["x", "yy", ""])];
    vec![
        sample("range", Dataset::range(7, -8, -3), [7, 4, 1, -2, -5]),
        sample("counter", Dataset::counter(5, -2).take(4), [5, 3, 1, -1]),
        unchecked("random", Dataset::random(Some(1)).take(5)),
        sample(
            "tensors",
            Dataset::tensors(pair.clone(), tensors()),
            ["[4 5 6] [x yy ]"],
        ),
        sample(
            "tensor_slices",
            Dataset::tensor_slices(pair.clone(), tensors()),
            ["4 x", "5 yy", "6 "],
        ),
        sample(
            "select",
            Dataset::tensor_slices(pair, tensors()).select([("b", "c")]),
            ["x", "yy", ""],
        ),
        sample(
            "source",
            Dataset::registered_source("squares", Params::none()),
            [0, 1, 4, 9, 16],
        ),
        sample(
            "map",
            Dataset::range(0, 3, 1).map_declared("add", Params::encode(&1i64).unwrap(), scalar()),
            1..4,
        ),
    ]
}

/// Returns the samples of texts and tokens. Other tests compare more texts and tokens with models.
fn texts() -> Vec<Sample> {
    use millstream_pipeline::graph::{CsvField, DecodeCsv, Feature, JsonField, PackSequences};

    let of = |dtype: Dtype, rows: &[&[u8]]| {
        let spec = ElementSpec::single(TensorSpec::fixed(dtype, &[rows.len() as u64])).unwrap();
        let items = rows.iter().map(|row| row.to_vec());
        Dataset::tensor_slices(spec, vec![ConstantTensor::items(items)])
    };
    let text = |rows: &[&str]| {
        let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        of(Dtype::String, &rows)
    };
    // The feature "a" with the integers 1 and 2. As the context of a sequence example the bytes are the
    // same.
    let example: &[u8] = b"\x0a\x0d\x0a\x0b\x0a\x01a\x12\x06\x1a\x04\x0a\x02\x01\x02";
    let feature = || [Feature::fixed("a", Dtype::I64, &[2])];
    let examples = || of(Dtype::Bytes, &[example, example]);
    let json = JsonField::new("v", "v", Dtype::I64, &[]);
    let columns = [CsvField::new("a", Dtype::I64), CsvField::new("b", Dtype::String)];
    let tokens = Dataset::range(0, 4, 1).map("up_to", Params::none());
    let mut all = vec![
        sample(
            "parse_example",
            examples().parse_example("", feature()),
            ["[1 2]", "[1 2]"],
        ),
        sample(
            "parse_sequence_example",
            examples().parse_sequence_example("", feature(), [Feature::ragged("b", Dtype::I64)]),
            ["[1 2] [] [0]", "[1 2] [] [0]"],
        ),
        sample(
            "split_ragged",
            text(&["a b", "c"]).batch(2, false).split_ragged("", None),
            ["[a b c] [0 2 3]"],
        ),
        sample(
            "pack_sequences",
            tokens.pack_sequences(PackSequences::new("", 4)),
            ["[0 0 1 0] [1 2 2 3] [0 0 1 0]", "[1 2 0 0] [1 1 0 0] [1 2 0 0]"],
        ),
    ];
    #[cfg(feature = "tokenise")]
    {
        use millstream_pipeline::graph::{Tokenise, Tokeniser};

        let words = Tokeniser::Given(super::WORDS.as_bytes().to_vec());
        all.push(sample(
            "tokenise",
            text(&["a b", "b c a"]).tokenise(Tokenise::new("", words)),
            ["[3 1 2]", "[3 2 0 1]"],
        ));
    }
    if cfg!(feature = "text") {
        all.push(sample(
            "parse_json",
            text(&[r#"{"v": 3}"#, r#"{"v": 4}"#]).parse_json("", [json]),
            [3, 4],
        ));
        all.push(sample(
            "decode_csv",
            text(&["1,x", "2,y"]).decode_csv(DecodeCsv::new("", columns)),
            ["1 x", "2 y"],
        ));
    }
    all
}

fn groups() -> Vec<Sample> {
    // Element i consists of the numbers below i.
    let lengths = || {
        let body = |number: Dataset| number.map("up_to", Params::none());
        body(Dataset::range(0, 5, 1))
    };
    let buckets = Buckets {
        boundaries: vec![2, 4],
        batch_sizes: vec![2, 2, 1],
        padding: Padding::Longest,
        drop_remainder: false,
    };
    let length = |element: Dataset| element.map("length", Params::none());
    vec![
        sample(
            "padded_batch",
            lengths().padded_batch(2, false),
            ["[[0] [0]]", "[[0 1 0] [0 1 2]]", "[[0 1 2 3]]"],
        ),
        sample(
            "padded_batch",
            lengths().skip(1).padded_batch(3, true),
            ["[[0 0 0] [0 1 0] [0 1 2]]"],
        ),
        sample(
            "ragged_batch",
            lengths().ragged_batch(2, false),
            ["[0] [0 0 1]", "[0 1 0 1 2] [0 2 5]", "[0 1 2 3] [0 4]"],
        ),
        sample(
            "bucket_by_sequence_length",
            lengths().bucket_by_sequence_length(length, buckets),
            ["[[0] [0]]", "[[0 1 0] [0 1 2]]", "[[0 1 2 3]]"],
        ),
    ]
}

fn readers(directory: &Path) -> Vec<Sample> {
    let write = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let lines = [write("1.txt", b"3\n1\n"), write("2.txt", b"4\r\n\n15")];
    let pattern = || Dataset::files(format!("{}/*.txt", directory.display()));
    let mut all = vec![
        sample("files", pattern(), &lines),
        sample("text_lines", pattern().text_lines(), ["3", "1", "4", "", "15"]),
        sample("parse_int", pattern().take(1).text_lines().parse_int(""), [3, 1]),
    ];
    all.extend(kept(directory));
    all.extend(records(directory));
    all.extend(pictures(directory));
    all.extend(super::format_samples::formats(directory));
    all
}

fn kept(directory: &Path) -> Vec<Sample> {
    let path = |name: &str| directory.join(name).display().to_string();
    let range = || Dataset::range(0, 11, 1);
    let saved = directory.join("saved");
    save(&range().graph().unwrap(), context(), &saved, Packing::Lz4).unwrap();
    let again = || range().cache().repeat(Some(2));
    let shards = Dataset::files(format!("{}/*.elements", saved.display())).elements(scalar());
    let folder = directory.join("chunks of a save");
    for name in ["chunks", "uncommitted"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let folder = folder.display().to_string();
    let written = range().write_chunk(folder.as_str(), Packing::Lz4);
    let chunk = format!("{folder}/chunks/chunk_000000000000.elements");
    vec![
        Sample {
            yields: None,
            ..sample("write_chunk", written, [0])
        },
        sample("chunks", Dataset::chunks(folder, Some(1), None), [chunk]),
        sample("cache twice", again(), (0..11).chain(0..11)),
        sample("cache in files", range().cache_in(path("cache")), 0..11),
        sample(
            "snapshot",
            range().snapshot(path("snapshots"), Packing::Gzip),
            0..11,
        ),
        sample("elements", shards, [0, 8, 1, 9, 2, 10, 3, 4, 5, 6, 7]),
        sample(
            "load",
            Dataset::load(&saved.display().to_string(), scalar()),
            0..11,
        ),
    ]
}

fn records(directory: &Path) -> Vec<Sample> {
    use millstream_pipeline::graph::{Compression, FixedLength};
    use millstream_pipeline::record::TfRecordWriter;

    let mut file = Vec::new();
    let mut writer = TfRecordWriter::new(&mut file);
    for record in ["one", "", "three"] {
        writer.write(record.as_bytes()).unwrap();
    }
    std::fs::write(directory.join("a.tfrecord"), file).unwrap();
    std::fs::write(directory.join("a.fixed"), b"Haabbccf").unwrap();
    let layout = FixedLength {
        record_bytes: 2,
        header_bytes: 1,
        footer_bytes: 1,
        compression: Compression::None,
    };
    let path = |name: &str| Dataset::files(format!("{}/{name}", directory.display()));
    vec![
        sample(
            "tfrecord",
            path("*.tfrecord").tfrecord(Compression::None),
            ["one", "", "three"],
        ),
        sample(
            "fixed_length",
            path("*.fixed").fixed_length_records(layout),
            ["aa", "bb", "cc"],
        ),
    ]
}

fn pictures(directory: &Path) -> Vec<Sample> {
    use millstream_pipeline::graph::OnError;

    use super::jpeg;

    let mut builder = tar::Builder::new(Vec::new());
    for key in 0..3u16 {
        let mut append = |name: String, data: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, data).unwrap();
        };
        append(
            format!("{key}.jpg"),
            &jpeg::encode(1 + key, 2, |y, x| (y + x) as u8),
        );
        append(format!("{key}.cls"), key.to_string().as_bytes());
    }
    std::fs::write(directory.join("a.tar"), builder.into_inner().unwrap()).unwrap();
    let fields = |names: &[&'static str]| {
        let shards = Dataset::files(format!("{}/*.tar", directory.display()));
        shards.webdataset(names.iter().copied(), OnError::Raise)
    };
    let picture = || {
        let decoded = fields(&["jpg"]).decode_image("jpg").parallel(1);
        decoded.select([("jpg", "jpg")])
    };
    let mut all = changed_pictures(&picture);
    all.extend([
        sample("webdataset", fields(&["cls"]), ["0 0", "1 1", "2 2"]),
        sample(
            "decode_image",
            picture(),
            ["u8[8, 16, 3]", "u8[16, 16, 3]", "u8[24, 16, 3]"],
        ),
        sample(
            "resize",
            picture().resize("jpg", 4, 5).parallel(1),
            ["u8[4, 5, 3]"; 3],
        ),
        sample(
            "random_resized_crop",
            picture().random_resized_crop("jpg", 6, 7).parallel(1),
            ["u8[6, 7, 3]"; 3],
        ),
    ]);
    all
}

/// Returns samples over pictures of 8, 16 and 24 rows of 16 pixels. The held definitions are from before
/// images were computed on several threads by default, hence one thread here.
fn changed_pictures(picture: &dyn Fn() -> Dataset) -> Vec<Sample> {
    use millstream_pipeline::graph::ColorJitter;

    let same = ["u8[8, 16, 3]", "u8[16, 16, 3]", "u8[24, 16, 3]"];
    vec![
        sample(
            "crop",
            picture().crop("jpg", 1, 2, 3, 4).parallel(1),
            ["u8[3, 4, 3]"; 3],
        ),
        sample(
            "central_crop",
            picture().central_crop("jpg", 0.5).parallel(1),
            ["u8[4, 8, 3]", "u8[8, 8, 3]", "u8[12, 8, 3]"],
        ),
        sample(
            "center_crop",
            picture().center_crop("jpg", 5, 6).parallel(1),
            ["u8[5, 6, 3]"; 3],
        ),
        sample(
            "random_crop",
            picture().random_crop("jpg", 5, 6, None).parallel(1),
            ["u8[5, 6, 3]"; 3],
        ),
        sample(
            "flip",
            picture().random_flip_left_right("jpg", None).parallel(1),
            same,
        ),
        sample(
            "color_jitter",
            picture()
                .color_jitter(ColorJitter::new("jpg", 0.1, 0.2, 0.3, 0.4))
                .parallel(1),
            same,
        ),
        sample(
            "normalize",
            picture()
                .crop("jpg", 0, 0, 1, 1)
                .parallel(1)
                .normalize("jpg", [0.5], [0.25])
                .parallel(1),
            ["[[[-2 -2 -2]]]"; 3],
        ),
        sample(
            "rgb_to_grayscale",
            picture().rgb_to_grayscale("jpg", 1).parallel(1),
            ["u8[8, 16, 1]", "u8[16, 16, 1]", "u8[24, 16, 1]"],
        ),
        sample(
            "hwc_to_chw",
            picture().hwc_to_chw("jpg").parallel(1),
            ["u8[3, 8, 16]", "u8[3, 16, 16]", "u8[3, 24, 16]"],
        ),
    ]
}
