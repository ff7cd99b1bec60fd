//! Tests of the encoding and the analysis of graphs.

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::graph::{
    AUTO, AnalysisError, Autotune, BUFFER_MAX, Buckets, CYCLE_MAX, Cardinality, Compression, ConstantTensor,
    Dataset, ErrorPolicy, ExternalState, Files, FixedLength, Graph, GraphError, NODES_MAX, NoFunctions, Node,
    OnError, Options, PaddedBatch, Padding, Params, Rewrites, ServiceReader, SourceDeclaration, SpecField,
    Splitting, TensorSlices, Threading, Travel, Window,
};
use proptest::prelude::*;

use crate::support::{Allowed, Model, chain, drain, functions, open, scalar};

const EVERYTHING: Allowed = Allowed {
    shuffle: true,
    counting: true,
    repeat: true,
};

fn pictures() -> Dataset {
    Dataset::files_shuffled("/data/*.tar", Some(1))
        .webdataset(["jpg", "cls"], OnError::Skip)
        .parse_int("cls")
        .decode_image("jpg")
        .random_resized_crop("jpg", 224, 224)
        .parallel(0)
        .select([("jpg", "image"), ("cls", "label"), ("__key__", "key")])
        .batch(32, true)
        .prefetch(2)
}

proptest! {
    #[test]
    fn a_graph_survives_its_encoding(chain in chain(EVERYTHING, 0..30)) {
        let graph = chain.graph();
        prop_assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        chain in chain(EVERYTHING, 0..30),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let _ = Graph::from_bytes(&bytes);
        let mut damaged = chain.graph().to_bytes().unwrap();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if let Ok(graph) = Graph::from_bytes(&damaged) {
            let _ = graph.facts(&functions());
        }
    }
}

#[test]
fn every_operation_survives_its_encoding() {
    let spec = ElementSpec::dict([
        ("a", TensorSpec::fixed(Dtype::I64, &[2])),
        ("b", TensorSpec::fixed(Dtype::String, &[2])),
    ]);
    let tensors = vec![
        ConstantTensor::fixed(vec![0; 16]),
        ConstantTensor::items(["x", "y"]),
    ];
    let declared = SourceDeclaration {
        spec: SpecField(scalar()),
        count: Some(3),
        infinite: false,
        indexable: true,
    };
    let reader = ServiceReader {
        params: Params::from_bytes([1]),
        spec: SpecField(scalar()),
        count: None,
        infinite: true,
        resumable: false,
    };
    let datasets = [
        pictures(),
        Dataset::tensor_slices(spec.unwrap(), tensors).unbatch(),
        Dataset::declared_source("s", Params::none(), declared).filter("keep", Params::none()),
        Dataset::from_service(reader)
            .take(1)
            .skip(2)
            .repeat(None)
            .resize("", 1, 2),
        Dataset::range(0, 1, 1)
            .map_declared("f", Params::none(), scalar())
            .parallel(3)
            .unordered(),
        Dataset::range(0, 1, 1)
            .flat_map_registered("g", Params::none())
            .shuffle(3, None),
        Dataset::range(0, 1, 1)
            .interleave_registered(4, 16, "g", Params::none())
            .interleave(2, 1, |argument| argument.repeat(Some(2))),
        Dataset::choose(
            Dataset::range(0, 2, 1).flat_map(|argument| argument.repeat(None)),
            [Dataset::range(0, 1, 1), Dataset::range(0, 2, 1)],
            true,
        ),
        Dataset::sample(
            [(0.3, Dataset::files("a")), (2.0, Dataset::files("b"))],
            Some(1),
            true,
        ),
        Dataset::range(0, 9, 1).shard(3, 2).shard_hint(),
        Dataset::zip([Dataset::range(0, 9, 1), Dataset::files("a").take(1)]),
        Dataset::files("a")
            .concatenate(Dataset::files("b"))
            .text_lines()
            .enumerate(-3),
        Dataset::zip_named([("a", Dataset::range(0, 9, 1)), ("b", Dataset::files("a"))]),
    ];
    for dataset in datasets {
        let graph = dataset.graph().unwrap();
        assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    }
}

#[test]
fn readers_and_sources_survive_their_encoding() {
    let options = Options {
        deterministic: Some(false),
        compression: Some(Travel::Lz4),
        on_error: Some(ErrorPolicy::retry(3).then_skip()),
        rewrites: Some(Rewrites::OFF),
        threading: Some(Threading {
            private_threads: Some(3),
            max_intra_op: Some(1),
        }),
        autotune: Some(Autotune {
            enabled: Some(false),
            threads: Some(2),
            ram_bytes: Some(1 << 30),
        }),
        external_state: Some(ExternalState::Ignore),
    };
    let datasets = [
        Dataset::counter(1, -2).concatenate(Dataset::random(Some(3))),
        Dataset::tensors(scalar(), vec![ConstantTensor::fixed(vec![0; 8])]),
        Dataset::files("a")
            .interleave(3, 2, |file| file.tfrecord(Compression::Gzip))
            .parallel(7)
            .ordered()
            .with_options(options),
        Dataset::files("a").fixed_length_records(FixedLength {
            record_bytes: 3,
            header_bytes: 4,
            footer_bytes: 5,
            compression: Compression::Zlib,
        }),
    ];
    for dataset in datasets {
        let graph = dataset.graph().unwrap();
        assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    }
}

#[test]
fn every_operation_on_groups_survives_its_encoding() {
    let buckets = Buckets {
        boundaries: vec![-3, 8],
        batch_sizes: vec![1, 2, 3],
        padding: Padding::Boundary,
        drop_remainder: true,
    };
    let padded = PaddedBatch {
        size: 3,
        drop_remainder: true,
        shapes: vec![vec![None, Some(2)]],
        values: vec![vec![1; 8].into()],
    };
    let window = Window {
        size: 1,
        shift: 2,
        stride: 3,
        drop_remainder: true,
    };
    let range = || Dataset::range(0, 9, 1);
    let key = |element: Dataset| element.map("modulo", Params::none());
    let datasets = [
        range().group_by_window(key, 7, |window| window.batch(2, true)),
        range().group_by_window_sized(key, key, |window| window.take(1)),
        range().window(window, |window| window.skip(1)),
        range().bucket_by_sequence_length(key, buckets),
        range().padded_batch_with(padded).ragged_batch(4, true),
        range().take_while("keep", Params::none()),
    ];
    for dataset in datasets {
        let graph = dataset.graph().unwrap();
        assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
    }
}

#[test]
fn specs_are_inferred_through_the_picture_pipeline() {
    let graph = pictures().graph().unwrap();
    let facts = graph.facts(&NoFunctions).unwrap();
    let expected = ElementSpec::dict([
        ("image", TensorSpec::fixed(Dtype::U8, &[32, 224, 224, 3])),
        ("label", TensorSpec::fixed(Dtype::I64, &[32])),
        ("key", TensorSpec::fixed(Dtype::String, &[32])),
    ]);
    assert_eq!(facts.spec, expected.unwrap());
    assert_eq!(facts.cardinality, Cardinality::Unknown);
    assert_eq!(facts.splittable, Ok(()));
    assert_eq!(facts.sources[0].splitting, Splitting::Listed);
    let files: Option<&Files> = graph.nodes()[facts.sources[0].node].op.of();
    assert_eq!(files.map(|files| &files.pattern[..]), Some("/data/*.tar"));
    assert!(facts.aligned.unwrap_err().contains("webdataset"));
}

#[test]
fn what_cannot_be_split_says_why() {
    let reader = ServiceReader {
        params: Params::none(),
        spec: SpecField(scalar()),
        count: None,
        infinite: false,
        resumable: false,
    };
    let facts = Dataset::from_service(reader)
        .graph()
        .unwrap()
        .facts(&NoFunctions)
        .unwrap();
    let reason = facts.splittable.unwrap_err();
    assert!(
        reason.contains("another service") && reason.contains("policy `off`"),
        "{reason}"
    );
    let endless = SourceDeclaration {
        spec: SpecField(scalar()),
        count: None,
        infinite: true,
        indexable: true,
    };
    let facts = Dataset::declared_source("rng", Params::none(), endless)
        .graph()
        .unwrap()
        .facts(&NoFunctions)
        .unwrap();
    let reason = facts.splittable.unwrap_err();
    assert!(
        reason.contains("rng") && reason.contains("unknown number"),
        "{reason}"
    );
    let sequential = SourceDeclaration {
        spec: SpecField(scalar()),
        count: Some(9),
        infinite: false,
        indexable: false,
    };
    let log = || Dataset::declared_source("log", Params::none(), sequential.clone());
    for dataset in [
        log(),
        Dataset::zip([Dataset::range(0, 9, 1), log()]),
        Dataset::range(0, 9, 1).concatenate(log()),
        Dataset::sample([(1.0, Dataset::range(0, 9, 1)), (1.0, log())], None, false),
    ] {
        let facts = dataset.graph().unwrap().facts(&NoFunctions).unwrap();
        let reason = facts.splittable.unwrap_err();
        assert!(
            reason.contains("\"log\" cannot be opened at a position"),
            "{reason}"
        );
    }
}

#[test]
fn alignment_is_refused_with_its_reason() {
    let reason = |dataset: Dataset| {
        dataset
            .graph()
            .unwrap()
            .facts(&functions())
            .unwrap()
            .aligned
            .unwrap_err()
    };
    assert!(reason(Dataset::range(0, 9, 1).shuffle(2, None)).contains("shuffle"));
    assert!(reason(Dataset::range(0, 9, 1).take(2)).contains("take"));
    assert!(reason(Dataset::range(0, 9, 1).shard(2, 0)).contains("shard"));
    assert!(reason(Dataset::zip([Dataset::range(0, 9, 1)])).contains("zip"));
    assert!(reason(Dataset::range(0, 9, 1).enumerate(0)).contains("enumerate"));
    assert!(reason(Dataset::sample([(1.0, Dataset::range(0, 9, 1))], None, true)).contains("sample"));
    let unordered = Dataset::range(0, 9, 1)
        .map("add", Params::encode(&1i64).unwrap())
        .parallel(2)
        .unordered();
    assert!(reason(unordered).contains("order"));
    // A map without parallel calls keeps its order even if `unordered`.
    let sequential = Dataset::range(0, 9, 1)
        .map("add", Params::encode(&1i64).unwrap())
        .unordered();
    assert_eq!(
        sequential.graph().unwrap().facts(&functions()).unwrap().aligned,
        Ok(())
    );
}

#[test]
fn declared_functions_need_no_registry() {
    let dataset = Dataset::range(0, 9, 1)
        .flat_map_declared("g", Params::none(), scalar())
        .interleave_declared(2, 1, "h", Params::none(), scalar())
        .map_declared("f", Params::none(), scalar());
    let facts = dataset.graph().unwrap().facts(&NoFunctions).unwrap();
    assert_eq!((facts.spec, facts.cardinality), (scalar(), Cardinality::Unknown));
}

#[test]
fn an_unknown_operation_is_named() {
    let mut bytes = Dataset::range(0, 9, 1)
        .unbatch()
        .graph()
        .unwrap()
        .to_bytes()
        .unwrap();
    let at = bytes.windows(7).position(|window| window == b"unbatch").unwrap();
    bytes[at..at + 7].copy_from_slice(b"unbitch");
    let error = Graph::from_bytes(&bytes).unwrap_err();
    assert_eq!(
        error,
        GraphError::UnknownOp {
            op: "unbitch".to_owned(),
            node: 1
        }
    );
}

#[test]
fn an_unknown_function_names_the_known_ones() {
    let graph = Dataset::range(0, 9, 1)
        .map("absent", Params::none())
        .graph()
        .unwrap();
    let error = graph.facts(&functions()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown function \"absent\"; registered here: add, fails, key, length, modulo, running, total, up_to"
    );
    assert!(matches!(error, AnalysisError::Unknown { .. }));
    let error = graph.facts(&NoFunctions).unwrap_err();
    assert!(error.to_string().ends_with("registered here: none"), "{error}");
}

#[test]
fn a_resolved_graph_needs_no_registry() {
    let body = |argument: Dataset| argument.map("add", Params::encode(&1i64).unwrap());
    let dataset = Dataset::range(0, 9, 1)
        .flat_map(body)
        .map("add", Params::encode(&2i64).unwrap())
        .batch(2, true);
    let graph = dataset.graph().unwrap();
    assert!(graph.facts(&NoFunctions).is_err());
    let resolved = Graph::from_bytes(&graph.resolved(&functions()).unwrap().to_bytes().unwrap()).unwrap();
    assert_eq!(resolved.facts(&NoFunctions), graph.facts(&functions()));
    assert_eq!(drain(&mut open(&resolved)), drain(&mut open(&graph)));
}

#[test]
fn graphs_have_limits() {
    let error = (0..NODES_MAX)
        .fold(Dataset::range(0, 1, 1), |dataset, _| dataset.take(1))
        .graph()
        .unwrap_err();
    assert!(matches!(error, GraphError::TooLarge { .. }), "{error}");
    let deep = (0..300)
        .fold(Dataset::range(0, 1, 1), |dataset, _| dataset.take(1))
        .graph()
        .unwrap_err();
    assert!(deep.to_string().contains("one behind the other"), "{deep}");
    fn nested(depth: usize, dataset: Dataset) -> Dataset {
        if depth == 0 {
            dataset
        } else {
            dataset.flat_map(|argument| nested(depth - 1, argument))
        }
    }
    assert!(
        nested(9, Dataset::range(0, 1, 1))
            .graph()
            .unwrap_err()
            .to_string()
            .contains("nesting")
    );
    assert_eq!(
        drain(&mut open(&nested(8, Dataset::range(0, 1, 1)).graph().unwrap())),
        [Model::Scalar(0)]
    );
}

#[test]
fn mistakes_name_their_operation() {
    let message = |dataset: Dataset| dataset.graph().unwrap_err().to_string();
    assert!(message(Dataset::range(0, 9, 0)).contains("step is 0"));
    assert!(message(Dataset::range(0, 9, 1).batch(0, false)).contains("batch"));
    let turns = |length, block| Dataset::range(0, 9, 1).interleave(length, block, |argument| argument);
    assert!(message(turns(0, 1)).contains("cycle of 0"));
    assert!(message(turns(CYCLE_MAX + 1, 1)).contains("cycle of 4097"));
    assert!(message(turns(1, 0)).contains("block of 0 elements"));
    assert!(message(Dataset::range(0, 9, 1).shard(3, 3)).contains("shard index 3 of 3"));
    assert!(message(Dataset::range(0, 9, 1).shard(0, 0)).contains("shard index 0 of 0"));
    assert!(message(Dataset::range(0, 9, 1).parallel(2)).contains("only a map or interleave"));
    assert!(message(Dataset::files("x").webdataset([], OnError::Raise)).contains("no fields"));
    let wrong = TensorSpec::fixed(Dtype::I64, &[3]);
    let slices = Dataset::tensor_slices(
        ElementSpec::single(wrong).unwrap(),
        vec![ConstantTensor::fixed([0; 8])],
    );
    assert!(message(slices).contains("8 bytes"));
    let range = || Dataset::range(0, 9, 1);
    assert!(message(range().shuffle(0, None)).contains("buffer of 0"));
    assert!(message(range().shuffle(BUFFER_MAX + 1, None)).contains("buffer of 16777217"));
    assert!(message(range().shuffle_and_repeat(u64::MAX, None, None)).contains("is not within"));
    assert!(message(range().prefetch(u64::MAX)).contains("is not within"));
}

#[test]
fn circular_and_dangling_graphs_are_refused() {
    let range = Dataset::range(0, 9, 1).graph().unwrap().nodes()[0].clone();
    let take = Dataset::range(0, 9, 1).take(1).graph().unwrap().nodes()[1]
        .op
        .clone();
    let reading = |inputs: &[u32]| Node {
        op: take.clone(),
        inputs: inputs.to_vec(),
    };
    let refused = |nodes: Vec<Node>| Graph::new(nodes).unwrap_err().to_string();
    for (nodes, reason) in [
        (vec![range.clone(), reading(&[1])], "does not precede it"),
        (
            vec![range.clone(), reading(&[2]), reading(&[1])],
            "does not precede it",
        ),
        (vec![range.clone(), reading(&[7])], "does not precede it"),
        (vec![range.clone(), reading(&[])], "has 0 inputs"),
        (
            vec![range.clone(), reading(&[0]), reading(&[0])],
            "feeds 2 operations",
        ),
        (vec![range.clone(), range], "feeds 0 operations"),
    ] {
        let found = refused(nodes);
        assert!(found.contains(reason), "{found}");
    }
}

#[test]
fn unfit_operations_say_so() {
    let message = |dataset: Dataset| {
        dataset
            .graph()
            .unwrap()
            .facts(&functions())
            .unwrap_err()
            .to_string()
    };
    assert!(message(Dataset::range(0, 9, 1).unbatch()).contains("scalar"));
    let uneven = Dataset::zip([2, 3].map(|rows| Dataset::range(0, 6, 1).batch(rows, true)));
    assert!(message(uneven.clone().unbatch()).contains("components of 2 and of 3 rows"));
    assert!(message(uneven.rebatch(4, false)).contains("components of 2 and of 3 rows"));
    assert!(message(Dataset::range(0, 9, 1).decode_image("")).contains("byte string"));
    assert!(message(Dataset::range(0, 9, 1).webdataset(["jpg"], OnError::Raise)).contains("path"));
    assert!(message(Dataset::range(0, 9, 1).text_lines()).contains("the path of a text file"));
    assert!(
        message(
            Dataset::files("x")
                .webdataset(["jpg"], OnError::Raise)
                .parse_int("cls")
        )
        .contains("cls")
    );
}

#[test]
fn slices_of_tensors_are_their_rows() {
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[2, 2])).unwrap();
    let bytes: Vec<u8> = (1..=4i64).flat_map(i64::to_le_bytes).collect();
    let graph = Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)])
        .graph()
        .unwrap();
    assert!(graph.nodes()[0].op.is::<TensorSlices>());
    let row = |a, b| Model::Rows(vec![Model::Scalar(a), Model::Scalar(b)]);
    assert_eq!(drain(&mut open(&graph)), [row(1, 2), row(3, 4)]);
}

/// Tests that functions of pictures use all threads unless the dataset sets a number, because a single
/// thread would limit most datasets.
#[test]
fn pictures_are_computed_in_parallel_by_default() {
    type Step = fn(Dataset) -> Dataset;
    let steps: [Step; 4] = [
        |pictures| pictures.decode_image(""),
        |pictures| pictures.decode_image("").resize("", 4, 5),
        |pictures| pictures.decode_image("").random_resized_crop("", 4, 5),
        |pictures| pictures.decode_image("").random_flip_left_right("", None),
    ];
    let bytes = |dataset: Dataset| dataset.graph().unwrap().to_bytes();
    for step in steps {
        let pictures = || Dataset::files("*.png");
        assert_eq!(bytes(step(pictures())), bytes(step(pictures()).parallel(AUTO)));
        assert_ne!(bytes(step(pictures())), bytes(step(pictures()).parallel(1)));
    }
}
