//! Tests of rules that every operation must satisfy. Every operation yields the elements of its naive
//! model, and continues from every saved position. Every operation also survives its encoding, states
//! its correct cardinality, and has a row in the documentation.

use std::collections::BTreeSet;

use millstream_pipeline::exec::Executor;
use millstream_pipeline::graph::{
    Cardinality, Format, Function, Graph, ImageFunction, Map, Native, Node, Op, Read, operations,
};

use crate::support::samples::{Sample, samples};
use crate::support::{functions, open, rendered};

/// The operations that cannot be saved, with reasons. The tests of the root crate check their elements.
const UNSAVED: &[&str] = &[
    "service", // the other service owns the position
];

fn pulled(executor: &mut Executor, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count
        && let Some(item) = executor.next().unwrap()
    {
        all.push(rendered(&item.value));
    }
    all
}

/// Collects the names of the operations in `nodes`, including operations in functions. Operations do
/// not expose their graphs to tests, so the names come from the debug output.
fn names_in(nodes: &[Node], into: &mut BTreeSet<&'static str>) {
    for node in nodes {
        into.insert(node.op.name());
        let written = format!("{:?}", node.op);
        if written.contains("Argument") {
            into.insert("argument");
        }
    }
}

/// Returns the property test that compares an operation with naive code, as a file name and a test
/// name. A new operation must be added here, because the other tests cannot find an operation without a
/// sample.
fn property_of(op: &Op) -> (&'static str, &'static str) {
    const CHAINS: (&str, &str) = ("model.rs", "a_chain_yields_what_the_model_yields");
    const SHUFFLED: (&str, &str) = ("model.rs", "a_shuffled_chain_yields_the_same_elements");
    const MODELS: &str = "naive_models.rs";
    if let Some(Map { function, .. }) = op.of() {
        return property_of_function(function);
    }
    if let Some(Read(format)) = op.of() {
        return property_of_format(format);
    }
    match op.name() {
        "range" => ("model.rs", "ranges_have_the_values_of_their_bounds"),
        "counter" => ("sources.rs", "a_counter_counts"),
        "random" => ("sources.rs", "endless_numbers_continue_where_saved"),
        "tensors" | "tensor_slices" => (MODELS, "constants_are_one_element_or_their_rows"),
        "files" => (MODELS, "files_come_sorted_or_seeded"),
        "source" => ("failing_sources.rs", "only_failures_are_omitted_across_saves"),
        // Another process yields the elements of a service, so the tests of the service check them.
        "service" => ("", ""),
        "padded_batch" => ("batches.rs", "a_padded_batch_fits_its_longest_row"),
        "ragged_batch" => ("batches.rs", "a_ragged_batch_has_items_and_splits"),
        "bucket_by_sequence_length" => ("batches.rs", "a_bucket_holds_its_lengths_without_loss"),
        "shuffle" | "sample" => SHUFFLED,
        "shuffle_and_repeat" => ("steps.rs", "shuffle_and_repeat_equals_both"),
        "assert_cardinality" => (MODELS, "only_the_stated_cardinality_passes"),
        "pack_sequences" => ("packing.rs", "packed_rows_hold_every_token_once"),
        "rejection_resample" => (MODELS, "resampling_keeps_order_and_the_rarest_class"),
        "cache" | "snapshot" => (MODELS, "elements_in_files_are_those_written"),
        "chunks" | "write_chunk" => ("by_split.rs", "chunks_hold_the_elements_of_their_splits"),
        "options" => ("rewrites.rs", "rewrites_change_no_element_position_or_draw"),
        "filter" | "filter_expr" | "take_while" | "take_while_expr" | "argument" | "batch" | "unbatch"
        | "group_by_window" | "window" | "repeat" | "take" | "skip" | "shard" | "enumerate" | "prefetch"
        | "flat_map" | "interleave" | "zip" | "concatenate" | "choose" | "scan" | "reduce" | "rebatch"
        | "unique" | "ignore_errors" | "statistics" => CHAINS,
        other => {
            panic!(
                "operation {other:?} has no property test: compare it with naive code and name the test here"
            )
        }
    }
}

fn property_of_function(function: &Function) -> (&'static str, &'static str) {
    let native = match function {
        Function::Registered(_) => return ("model.rs", "a_chain_yields_what_the_model_yields"),
        Function::Image(function) => return property_of_picture(function),
        Function::Native(native) => native,
    };
    const MODELS: &str = "naive_models.rs";
    match native {
        Native::ParseInt(_) => (MODELS, "integers_are_read_of_their_text"),
        Native::Select(_) => (MODELS, "selected_components_keep_names_and_order"),
        Native::Compute(_) => (MODELS, "what_is_computed_nests_as_its_structure_says"),
        Native::ParseExample(_) => ("parsing.rs", "what_was_written_is_read"),
        Native::ParseSequenceExample(_) => ("parsing.rs", "lists_of_features_have_their_rows"),
        Native::ParseJson(_) => (MODELS, "fields_of_documents_become_components"),
        Native::Tokenise(_) => ("tokens.rs", "each_word_becomes_its_id"),
        Native::DecodeCsv(_) => ("parsing.rs", "lines_are_read_as_they_were_written"),
        Native::SplitRagged(_) => (MODELS, "texts_are_cut_into_the_words_between"),
    }
}

fn property_of_picture(function: &ImageFunction) -> (&'static str, &'static str) {
    match function {
        ImageFunction::Decode(_) => ("images.rs", "a_decoded_crop_equals_the_whole_crop"),
        ImageFunction::Resize(_) => ("../src/image/resize.rs", "resized_pixels_are_weighted_means"),
        ImageFunction::Crop(_)
        | ImageFunction::CentralCrop(_)
        | ImageFunction::CenterCrop(_)
        | ImageFunction::RandomCrop(_)
        | ImageFunction::Flip(_) => ("images.rs", "crops_and_flips_match_naive_code"),
        ImageFunction::RandomResizedCrop(_) => {
            ("../src/exec/image/area.rs", "drawn_areas_lie_within_the_picture")
        }
        ImageFunction::ColorJitter(_) => (
            "../src/image/colour/jitter.rs",
            "adjustments_are_what_their_formulas_say",
        ),
        ImageFunction::Normalize(_) => ("../src/image/colour/normalise.rs", "values_are_scaled_by_channel"),
        ImageFunction::Grayscale(_) => ("../src/image/colour/grey.rs", "grey_is_the_weighted_mean_rounded"),
        ImageFunction::HwcToChw(_) => ("../src/image/layout.rs", "items_land_in_their_channels_plane"),
    }
}

fn property_of_format(format: &Format) -> (&'static str, &'static str) {
    match format {
        Format::TextLines => ("text.rs", "lines_are_what_stands_between_newlines"),
        Format::TfRecord(_) => ("records.rs", "tfrecords_are_read_from_every_position"),
        Format::FixedLength(_) => ("records.rs", "fixed_records_are_read_from_every_position"),
        Format::WebDataset(_) => ("formats/writers.rs", "samples_are_read_as_they_were_written"),
        Format::Csv(_) => ("formats/csv.rs", "csv_rows_are_read_from_every_position"),
        Format::JsonLines(_) => ("formats/json_lines.rs", "json_lines_are_read_from_every_position"),
        Format::Npy(_) => ("formats/numpy.rs", "npy_rows_are_read_from_every_position"),
        Format::Npz(_) => ("formats/numpy.rs", "npz_arrays_are_read_side_by_side"),
        Format::Parquet(_) | Format::Arrow(_) => {
            ("formats/tables.rs", "table_rows_are_read_from_every_position")
        }
        Format::Sqlite(_) => ("formats/sqlite.rs", "sqlite_rows_are_read_from_every_position"),
        Format::Mds(_) => ("formats/mds.rs", "mds_samples_are_read_from_every_position"),
        Format::ImageFolder(_) => ("naive_models.rs", "a_picture_folder_has_files_and_classes"),
        Format::Elements(_) => ("naive_models.rs", "elements_in_files_are_those_written"),
    }
}

fn with_samples(check: impl Fn(&Sample)) {
    let directory = tempfile::tempdir().unwrap();
    samples(directory.path()).iter().for_each(check);
}

#[test]
fn every_operation_has_a_sample() {
    let directory = tempfile::tempdir().unwrap();
    let mut found: BTreeSet<&str> = UNSAVED.iter().copied().collect();
    for sample in samples(directory.path()) {
        names_in(sample.dataset.graph().unwrap().nodes(), &mut found);
    }
    let missing: Vec<&str> = operations().filter(|name| !found.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "expected a sample for every operation, missing: {missing:?}"
    );
}

#[test]
fn every_operation_has_a_row_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let missing: Vec<&str> = operations().filter(|name| !rows.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "expected a row in docs/operations.md for every operation, missing: {missing:?}"
    );
    let stray: Vec<&&str> = rows
        .iter()
        .filter(|row| operations().all(|name| name != **row))
        .collect();
    assert!(stray.is_empty(), "no operations: {stray:?}");
}

#[test]
fn every_operation_has_a_naive_model() {
    let directory = tempfile::tempdir().unwrap();
    for sample in samples(directory.path()) {
        for node in sample.dataset.graph().unwrap().nodes() {
            let (file, property) = property_of(&node.op);
            let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
            let code = std::fs::read_to_string(&path).unwrap();
            // A property test has parameters.
            let is_there =
                code.contains(&format!("fn {property}(")) && !code.contains(&format!("fn {property}()"));
            assert!(
                is_there && code.contains("proptest! {"),
                "{}: expected a property test {property} in {file}",
                node.op.name()
            );
        }
    }
}

#[test]
fn every_operation_yields_what_its_model_yields() {
    with_samples(|sample| {
        if let Some(expected) = &sample.yields {
            let found = pulled(&mut open(&sample.dataset.clone().graph().unwrap()), usize::MAX);
            assert_eq!(&found, expected, "{}", sample.name);
        }
    });
}

#[test]
fn every_operation_goes_on_at_every_position() {
    with_samples(|sample| {
        let graph = sample.dataset.clone().graph().unwrap();
        let whole = pulled(&mut open(&graph), usize::MAX);
        for position in 0..=whole.len() {
            let mut interrupted = open(&graph);
            let mut found = pulled(&mut interrupted, position);
            let state = interrupted.save().unwrap();
            drop(interrupted);
            let mut resumed = open(&graph);
            resumed.restore(&state).unwrap();
            found.extend(pulled(&mut resumed, usize::MAX));
            assert_eq!(found, whole, "{} at {position}", sample.name);
        }
    });
}

#[test]
fn every_operation_survives_its_encoding() {
    with_samples(|sample| {
        let graph = sample.dataset.clone().graph().unwrap();
        let read = Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap();
        assert_eq!(read, graph, "{}", sample.name);
    });
}

#[test]
fn every_operation_keeps_its_promised_spec() {
    with_samples(|sample| {
        let graph = sample.dataset.clone().graph().unwrap();
        let facts = graph.facts(&functions()).unwrap();
        let mut executor = open(&graph);
        let mut count = 0;
        while let Some(item) = executor.next().unwrap() {
            count += 1;
            for (tensor, spec) in item.value.iter().zip(facts.spec.components()) {
                assert!(
                    tensor.fits(spec),
                    "{}: {} does not match {spec}",
                    sample.name,
                    rendered(&item.value)
                );
            }
            assert_eq!(item.value.len(), facts.spec.components().len(), "{}", sample.name);
        }
        if let Cardinality::Finite(said) = facts.cardinality {
            assert_eq!(count, said, "{}", sample.name);
        }
    });
}
