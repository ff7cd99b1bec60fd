//! Every operation does what is promised of all of them: it yields what its naive model yields, goes on at every position where
//! it was put aside, survives its encoding, has as many elements as it says, and has a row in the documentation.

use std::collections::BTreeSet;

use millstream_pipeline::exec::Executor;
use millstream_pipeline::graph::{Cardinality, Graph, Node, operations};

use crate::support::samples::{Sample, samples};
use crate::support::{functions, open, rendered};

/// What cannot be saved, and why; what it yields is the root's tests' business.
const UNSAVED: &[&str] = &[
    "service", // its position is the other service's
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

/// The operations of `nodes`, those of functions too. Operations hide the graphs that they have, so these are read from what
/// is written for people.
fn names_in(nodes: &[Node], into: &mut BTreeSet<&'static str>) {
    for node in nodes {
        into.insert(node.op.name());
        let written = format!("{:?}", node.op);
        if written.contains("Argument") {
            into.insert("argument");
        }
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
    assert!(missing.is_empty(), "without a sample: {missing:?}");
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
        "without a row in docs/operations.md: {missing:?}"
    );
    let stray: Vec<&&str> = rows
        .iter()
        .filter(|row| operations().all(|name| name != **row))
        .collect();
    assert!(stray.is_empty(), "no operations: {stray:?}");
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
fn every_operation_has_as_many_elements_as_it_says_and_of_the_kind_it_says() {
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
                    "{}: {} is no {spec}",
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
