//! Tests of files of JSON lines.

use millstream_element::{Dtype, TensorSpec};
use millstream_pipeline::graph::{JsonColumn, JsonLines, OnError};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::files::{Flat, all, damaged, elements, failure, files, survives};

fn json() -> JsonLines {
    let field = |name: &str, spec| JsonColumn::required(name, spec).unwrap();
    JsonLines::new([
        field("id", TensorSpec::scalar(Dtype::I64)),
        field("box", TensorSpec::with_dims(Dtype::F32, &[None, Some(2)])).at(["meta", "boxes"]),
        field("tag", TensorSpec::scalar(Dtype::String))
            .at(["tags", "0"])
            .or("\"none\""),
    ])
}

type Document = (i64, Vec<(f32, f32)>, Option<String>);

fn line((id, boxes, tag): &Document) -> String {
    let boxes: Vec<_> = boxes.iter().map(|(x, y)| format!("[{x}, {y}]")).collect();
    let tag: Vec<_> = tag.iter().map(|tag| format!("\"{tag}\"")).collect();
    format!(
        "{{\"id\": {id}, \"meta\": {{\"boxes\": [{}]}}, \"tags\": [{}]}}\n",
        boxes.join(","),
        tag.join(",")
    )
}

fn element((id, boxes, tag): &Document) -> Vec<Flat> {
    let items = boxes
        .iter()
        .flat_map(|(x, y)| [x.to_le_bytes().to_vec(), y.to_le_bytes().to_vec()]);
    let tag = tag.as_deref().unwrap_or("none");
    vec![
        (Dtype::I64, vec![], vec![id.to_le_bytes().to_vec()]),
        (Dtype::F32, vec![boxes.len() as u64, 2], items.collect()),
        (Dtype::String, vec![], vec![tag.as_bytes().to_vec()]),
    ]
}

fn any_documents() -> impl Strategy<Value = Vec<Document>> {
    let number = || (-100i32..100).prop_map(|number| number as f32 / 4.0);
    let boxes = prop::collection::vec((number(), number()), 0..3);
    prop::collection::vec((any::<i64>(), boxes, prop::option::of("[a-z\u{e9}]{0,4}")), 0..6)
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn json_lines_are_read_from_every_position(
        contents in prop::collection::vec(any_documents(), 1..3),
    ) {
        let bytes: Vec<String> = contents.iter().map(|documents| documents.iter().map(line).collect()).collect();
        let directory = files(&bytes);
        let expected: Vec<_> = contents.iter().flatten().map(element).collect();
        prop_assert_eq!(elements(&all(directory.path()).json_lines(json()).graph().unwrap()), expected);
    }

    #[test]
    fn no_damage_does_harm(documents in any_documents(), at: prop::sample::Index, change: Option<u8>) {
        let file: String = documents.iter().map(line).chain(["\n".to_owned()]).collect();
        let directory = files(&[damaged(file.as_bytes(), at.index(file.len()), change)]);
        survives(all(directory.path()).json_lines(json()));
    }
}

#[test]
fn a_broken_line_is_named_or_left_out() {
    let good = line(&(7, vec![], None));
    let broken = [
        ("{\"id\": 1", "invalid JSON"),
        (
            "{\"id\": 1.5, \"meta\": {\"boxes\": []}}",
            "expected i64, found 1.5",
        ),
        ("{\"meta\": {\"boxes\": []}}", "no value at \"id\""),
        (
            "{\"id\": 1, \"meta\": {\"boxes\": [[1]]}}",
            "expected an array of 2 items, found 1",
        ),
        (
            "{\"id\": 1, \"meta\": {\"boxes\": 3}}",
            "expected an array, found 3",
        ),
        (
            "{\"id\": 1, \"meta\": {\"boxes\": []}, \"tags\": [4]}",
            "expected string, found 4",
        ),
    ];
    for (text, reason) in broken {
        let directory = files(&[format!("{good}\n{text}\n{good}")]);
        let (before, message) = failure(all(directory.path()).json_lines(json()));
        assert_eq!(before, 1);
        assert!(
            message.contains(reason) && message.contains("key \"line 3\""),
            "{message}"
        );
        let skipping = JsonLines {
            on_error: OnError::Skip,
            ..json()
        };
        let graph = all(directory.path()).json_lines(skipping).graph().unwrap();
        assert_eq!(elements(&graph), vec![element(&(7, vec![], None)); 2]);
    }
}

#[test]
fn a_document_nested_without_end_is_an_error() {
    let directory = files(&["[".repeat(1 << 20)]);
    let (_, message) = failure(all(directory.path()).json_lines(json()));
    assert!(message.contains("recursion"), "{message}");
}
