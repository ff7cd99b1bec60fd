//! Tests that the present version reads definitions, saved states, packs and saved elements of earlier
//! versions.
//!
//! `MILLSTREAM_HOLD=1 cargo test -p millstream-pipeline --test main held` writes the files again, which
//! is necessary only for a new format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use millstream_element::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Pack, PackWriter, SlotAlloc, TensorSpec,
};
use millstream_pipeline::exec::save;
use millstream_pipeline::graph::{ConstantTensor, Dataset, Graph, Packing};

use tempfile::TempDir;

use crate::support::files::elements;
use crate::support::rendered;
use crate::support::samples::{Sample, samples};
use crate::support::{context, open};

/// The number of elements that a sample yields before its state is saved.
const BEFORE: usize = 2;
/// The placeholder for the folder of files in a held definition.
const PATH: &str = "@";

fn held(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/held")
        .join(name)
}

fn is_held_again() -> bool {
    std::env::var_os("MILLSTREAM_HOLD").is_some()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Returns the remaining elements of a dataset after its state was restored, separated by `|`.
fn rest(graph: &Graph, state: &[u8]) -> String {
    let mut executor = open(graph);
    executor.restore(state).unwrap();
    let mut rest = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        rest.push(rendered(&item.value));
    }
    rest.join("|").replace(['\n', '\t'], "?")
}

/// Makes a folder whose path always has the same length, so that definitions that contain the path have
/// one encoding.
fn folder() -> TempDir {
    tempfile::Builder::new().rand_bytes(6).tempdir_in("/tmp").unwrap()
}

/// Returns the definitions of all samples. Samples with the same name are numbered.
fn named(directory: &Path) -> Vec<(String, Graph)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let with_number = |sample: Sample| {
        let count = counts.entry(sample.name.clone()).or_default();
        *count += 1;
        (
            format!("{} {count}", sample.name),
            sample.dataset.graph().unwrap(),
        )
    };
    samples(directory).into_iter().map(with_number).collect()
}

/// Returns a line for each sample that reads no committed file: its name and its definition. If the
/// sample reads no file at all, the line also has the state after a few elements, and the remaining
/// elements.
fn states() -> String {
    let directory = folder();
    let path = hex(directory.path().to_str().unwrap().as_bytes());
    let mut lines = String::new();
    for (name, graph) in named(directory.path()) {
        let definition = hex(&graph.to_bytes().unwrap());
        if definition.contains(&hex(env!("CARGO_MANIFEST_DIR").as_bytes())) {
            continue;
        }
        write!(lines, "{}\t{}", name, definition.replace(&path, PATH)).unwrap();
        if !definition.contains(&path) {
            let mut executor = open(&graph);
            for _ in 0..BEFORE {
                let _ = executor.next().unwrap();
            }
            let state = executor.save().unwrap();
            write!(lines, "\t{}\t{}", hex(&state), rest(&graph, &state)).unwrap();
        }
        lines.push('\n');
    }
    lines
}

#[test]
fn held_definitions_and_states_are_read() {
    let file = held("states.tsv");
    if is_held_again() {
        std::fs::write(&file, states()).unwrap();
    }
    let text = std::fs::read_to_string(file).unwrap();
    let directory = folder();
    let path = hex(directory.path().to_str().unwrap().as_bytes());
    let today: BTreeMap<String, Graph> = named(directory.path()).into_iter().collect();
    assert!(text.lines().count() > 80, "{}", text.lines().count());
    for line in text.lines() {
        let mut parts = line.split('\t');
        let mut part = || parts.next().unwrap_or_default();
        let (name, definition) = (part(), part().replace(PATH, &path));
        let graph = Graph::from_bytes(&bytes(&definition)).unwrap();
        assert_eq!(graph, today[name], "{name}");
        assert_eq!(
            hex(&graph.to_bytes().unwrap()),
            definition,
            "{name}: another encoding"
        );
        let (state, expected) = (part(), part());
        if !state.is_empty() {
            assert_eq!(rest(&graph, &bytes(state)), expected, "{name}");
        }
    }
}

/// Returns a dataset of elements with several components: numbers, strings, and dimensions of varying
/// size.
fn mixed() -> Dataset {
    let spec = ElementSpec::dict([
        ("half", TensorSpec::fixed(Dtype::F16, &[3])),
        ("id", TensorSpec::fixed(Dtype::I64, &[])),
        ("text", TensorSpec::fixed(Dtype::String, &[2])),
    ]);
    let rows = vec![
        ConstantTensor::fixed((0..18).collect::<Vec<u8>>()),
        ConstantTensor::fixed(
            [1_i64, -2, 3]
                .iter()
                .flat_map(|id| id.to_le_bytes())
                .collect::<Vec<u8>>(),
        ),
        ConstantTensor::items(["one", "", "a longer text", "é", "five", "six"]),
    ];
    let spec = spec.unwrap().batched(Some(3)).unwrap();
    Dataset::tensor_slices(spec, rows)
}

#[test]
fn held_packs_are_opened() {
    let graph = mixed().graph().unwrap();
    let file = held("pack.tsv");
    let mut executor = open(&graph);
    let layout = Layout::new(executor.spec().clone()).unwrap();
    if is_held_again() {
        let (mut writer, taken) = PackWriter::open(&HeapAlloc, 4096, 100).unwrap();
        executor.write(&layout, &mut writer, 100).unwrap();
        drop(writer);
        let pack = taken.take(usize::MAX, u64::MAX).unwrap();
        let lens: Vec<u8> = pack
            .slots()
            .flat_map(|slot| (slot.len() as u64).to_le_bytes())
            .collect();
        std::fs::write(&file, format!("{}\t{}", hex(&lens), hex(pack.region()))).unwrap();
    }
    let text = std::fs::read_to_string(file).unwrap();
    let (lens, region) = text.split_once('\t').unwrap();
    let lens: Vec<u64> = bytes(lens)
        .chunks_exact(8)
        .map(|len| u64::from_le_bytes(len.try_into().unwrap()))
        .collect();
    let region = bytes(region);
    let mut slot = HeapAlloc.alloc(region.len()).unwrap();
    slot.copy_from_slice(&region);
    let pack = Pack::from_parts(slot.freeze(), &lens).unwrap();
    let found: Vec<String> = pack
        .slots()
        .map(|slot| {
            let element = Element::open(slot, &layout, Origin::Foreign).unwrap();
            let parts: Vec<String> = element
                .components()
                .map(|part| format!("{:?} {}", part.dims(), hex(part.bytes())))
                .collect();
            format!("{} {}", element.sequence(), parts.join(" "))
        })
        .collect();
    let expected = std::fs::read_to_string(held("pack.elements"));
    if is_held_again() {
        std::fs::write(held("pack.elements"), found.join("\n")).unwrap();
    } else {
        assert_eq!(found.join("\n"), expected.unwrap());
    }
}

#[test]
fn held_saved_elements_are_read() {
    let folder = held("saved");
    let graph = mixed().graph().unwrap();
    if is_held_again() {
        let _ = std::fs::remove_dir_all(&folder);
        save(&graph, context(), &folder, Packing::Lz4).unwrap();
    }
    let spec = open(&graph).spec().clone();
    let loaded = Dataset::load(folder.to_str().unwrap(), spec).graph().unwrap();
    assert_eq!(elements(&loaded), elements(&graph));
}
