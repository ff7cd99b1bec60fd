//! Tests of NumPy arrays and archives.

use std::io::Write;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::graph::{Columns, Dataset, Numpy, OnError};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{Flat, all, damaged, elements, failure, files, survives};
use crate::support::functions;

/// Returns a `.npy` file, written independently of the crate from the description of the format.
fn array(descr: &str, shape: &[u64], items: &[u8]) -> Vec<u8> {
    let dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}").into_bytes();
    while (header.len() + 11) % 64 != 0 {
        header.push(b' ');
    }
    header.push(b'\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], &header, items].concat()
}

/// Returns an `.npz` archive of `arrays`, with compressed or stored entries.
fn archive(arrays: &[(&str, Vec<u8>)], compressed: bool) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let method = if compressed {
        zip::CompressionMethod::Deflated
    } else {
        zip::CompressionMethod::Stored
    };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in arrays {
        writer.start_file(format!("{name}.npy"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn numbers(values: &[i32], big: bool) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| {
            if big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        })
        .collect()
}

fn flat(dims: &[u64], values: &[i32]) -> Flat {
    (
        Dtype::I32,
        dims.to_vec(),
        values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
    )
}

fn rows() -> Numpy {
    Numpy::rows(Columns::all())
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn npy_rows_are_read_from_every_position(
        values in prop::collection::vec(any::<[i32; 3]>(), 0..6),
        big: bool,
    ) {
        let items: Vec<i32> = values.concat();
        let shape = [values.len() as u64, 3];
        let file = array(if big { ">i4" } else { "<i4" }, &shape, &numbers(&items, big));
        let directory = files(&[file.clone(), file]);
        let once: Vec<_> = values.iter().map(|row| vec![flat(&[3], row)]).collect();
        let found = elements(&all(directory.path()).npy(rows()).graph().unwrap());
        prop_assert_eq!(found, [once.clone(), once].concat());
        let whole = Numpy::whole(Columns::all());
        let found = elements(&all(directory.path()).npy(whole).graph().unwrap());
        prop_assert_eq!(found, vec![vec![flat(&shape, &items)]; 2]);
    }

    #[test]
    fn npz_arrays_are_read_side_by_side(
        values in prop::collection::vec(any::<(i32, [i32; 2])>(), 0..6),
        compressed: bool,
    ) {
        let count = values.len() as u64;
        let (x, y): (Vec<i32>, Vec<[i32; 2]>) = values.iter().copied().unzip();
        let file = archive(&[
            ("y", array("<i4", &[count, 2], &numbers(&y.concat(), false))),
            ("z", array("|S1", &[1], b"?")),
            ("x", array("<i4", &[count], &numbers(&x, false))),
        ], compressed);
        let directory = files(&[file]);
        let chosen = Numpy::rows(Columns::named(["x", "y"]));
        let expected: Vec<_> = values.iter().map(|(x, y)| vec![flat(&[], &[*x]), flat(&[2], y)]).collect();
        prop_assert_eq!(elements(&all(directory.path()).npz(chosen).graph().unwrap()), expected);
        let whole = Numpy::whole(Columns::all());
        let found = elements(&all(directory.path()).npz(whole).graph().unwrap());
        let z = (Dtype::Bytes, vec![1], vec![b"?".to_vec()]);
        prop_assert_eq!(found, [[flat(&[count, 2], &y.concat()), z, flat(&[count], &x)]]);
    }

    #[test]
    fn no_damage_does_harm(at: prop::sample::Index, change: Option<u8>, archived: bool) {
        let file = array("<U2", &[3], &numbers(&[97, 0, 98, 99, 100, 0], false));
        let file = if archived { archive(&[("a", file)], false) } else { file };
        let directory = files(&[damaged(&file, at.index(file.len()), change)]);
        let text = ElementSpec::single(TensorSpec::scalar(Dtype::String)).unwrap();
        if archived {
            let named = ElementSpec::dict([("a", TensorSpec::scalar(Dtype::String))]).unwrap();
            survives(all(directory.path()).npz(Numpy::rows(Columns::all().declared(named))));
        } else {
            survives(all(directory.path()).npy(Numpy::rows(Columns::all().declared(text))));
        }
    }
}

#[test]
fn texts_lose_their_padding() {
    let text = |text: &str| vec![(Dtype::String, vec![], vec![text.as_bytes().to_vec()])];
    let directory = files(&[array("<U2", &[2], &numbers(&[97, 0, 0xe9, 98], false))]);
    assert_eq!(
        elements(&all(directory.path()).npy(rows()).graph().unwrap()),
        [text("a"), text("éb")]
    );
    let directory = files(&[array("|S2", &[2], b"a\0bc")]);
    let bytes = |text: &[u8]| vec![(Dtype::Bytes, vec![], vec![text.to_vec()])];
    assert_eq!(
        elements(&all(directory.path()).npy(rows()).graph().unwrap()),
        [bytes(b"a"), bytes(b"bc")]
    );
}

#[test]
fn unlike_and_truncated_arrays_are_errors() {
    let first = array("<i4", &[1, 2], &numbers(&[1, 2], false));
    let other = array("<f4", &[1, 2], &[0; 8]);
    let cut = &first[..first.len() - 1];
    let read = |second: &[u8]| {
        let directory = files(&[&first, second]);
        let (before, message) = failure(all(directory.path()).npy(rows()));
        assert_eq!(before, 1);
        assert!(message.contains("/0001"), "{message}");
        let skipping = Numpy {
            on_error: OnError::Skip,
            ..rows()
        };
        assert!(survives(all(directory.path()).npy(skipping)));
        message
    };
    assert!(read(&other).contains("expected elements of i32[2], found f32[2]"));
    assert!(read(cut).contains("truncated"));
    assert!(read(b"other").contains("truncated"));
}

#[test]
fn an_overlong_array_allocates_nothing() {
    let directory = files(&[array("<i4", &[1], &[0; 4]), array("<i4", &[1 << 60], &[0; 4])]);
    assert!(failure(all(directory.path()).npy(rows())).1.contains("truncated"));
}

#[test]
fn specs_of_files_travel_with_the_graph() {
    let directory = files(&[array("<i4", &[1, 2], &numbers(&[1, 2], false))]);
    let body = all(directory.path()).interleave(1, 1, |file| file.npy(rows()));
    for dataset in [all(directory.path()).shuffle(2, Some(1)).npy(rows()), body] {
        let graph = dataset.graph().unwrap().resolved(&functions()).unwrap();
        let facts = graph.facts(&millstream_pipeline::graph::NoFunctions).unwrap();
        assert_eq!(facts.spec.to_string(), "i32[2]");
    }
    let unknown = Dataset::files("*").text_lines().npy(rows()).graph().unwrap();
    let message = unknown.facts(&functions()).unwrap_err().to_string();
    assert!(message.contains("declare the columns"), "{message}");
    let nowhere = unknown
        .facts(&millstream_pipeline::graph::NoFunctions)
        .unwrap_err()
        .to_string();
    assert!(nowhere.contains("does not read files"), "{nowhere}");
}
