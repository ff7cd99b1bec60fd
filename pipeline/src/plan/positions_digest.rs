//! The digest of the operations that decide which element has which position. A loader compares it to detect
//! that a saved position belongs to another dataset.
//!
//! Operations that compute each element alone, or only buffer elements, do not count. A program may change
//! them, and continue at a position. Paths and the code of Python functions do not count either, because they
//! differ between machines and processes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::exec::random::{digest_of, mix};
use crate::graph::{Graph, GraphError, Node, Role};

/// The version of the digest. Digests of different versions cannot be compared.
pub const POSITIONS_DIGEST_VERSION: u32 = 1;

/// Returns the digest of the operations and parameters that decide the positions of a dataset's elements.
/// Parameters of functions and sources that are registered as `code` do not count.
///
/// # Errors
/// [`GraphError::Malformed`] for parameters that have no encoding.
pub fn positions_digest(graph: &Graph, code: &str) -> Result<u64, GraphError> {
    digest(&graph.without_params(code))
}

fn digest(graph: &Graph) -> Result<u64, GraphError> {
    // Each split is one file, so a cycle over files has one member, whatever its length.
    let is_by_file = graph.nodes().iter().any(|node| node.op.name() == "files");
    let mut digests: Vec<u64> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let inputs: Vec<u64> = node.inputs.iter().map(|at| digests[*at as usize]).collect();
        digests.push(digest_of_node(node, &inputs, is_by_file)?);
    }
    let root = digests.last().copied().unwrap_or_default();
    Ok(mix(root, graph.split_size().unwrap_or_default()))
}

fn digest_of_node(node: &Node, inputs: &[u64], is_by_file: bool) -> Result<u64, GraphError> {
    let Some(params) = node.op.deciding_params()? else {
        return Ok(inputs.first().copied().unwrap_or_default());
    };
    let mut found = mix(digest_of(node.op.name().as_bytes()), digest_of(&params));
    if let Some(cycle) = node.op.cycle().filter(|_| !is_by_file) {
        found = mix(found, mix(cycle.length, cycle.block));
    }
    for (graph, role) in node.op.graphs() {
        let of_graph = match role {
            Role::Dataset | Role::Function => digest(graph)?,
            // The value decides, for example as the key of a group.
            Role::Value => digest_of(&graph.to_bytes()?),
        };
        found = mix(found, of_graph);
    }
    Ok(inputs.iter().fold(found, |found, input| mix(found, *input)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millstream_element::{Dtype, ElementSpec, TensorSpec};

    use super::*;
    use crate::graph::{ConstantTensor, Dataset, Params, col};

    fn digest(dataset: Dataset) -> u64 {
        let graph = dataset.graph().expect("valid");
        positions_digest(&graph, "python").expect("a digest")
    }

    fn numbers() -> Dataset {
        Dataset::range(0, 1000, 1).shuffle(100, Some(1)).batch(8, false)
    }

    #[test]
    fn operations_that_decide_positions_count() {
        let all = [
            numbers(),
            numbers().split_size(40),
            Dataset::range(0, 999, 1).shuffle(100, Some(1)).batch(8, false),
            Dataset::range(0, 1000, 1).shuffle(1000, Some(1)).batch(8, false),
            Dataset::range(0, 1000, 1).shuffle(100, Some(2)).batch(8, false),
            Dataset::range(0, 1000, 1).shuffle(100, Some(1)).batch(8, true),
            numbers().filter_expr(col("").gt(3)),
            numbers().filter_expr(col("").gt(4)),
            numbers().take(5),
            numbers().interleave(2, 1, |x| x.repeat(Some(2))),
            numbers().interleave(2, 1, |x| x.repeat(Some(3))),
            numbers().interleave(2, 2, |x| x.repeat(Some(3))),
        ];
        let digests: BTreeSet<u64> = all.into_iter().map(digest).collect();
        assert_eq!(digests.len(), 12);
    }

    #[test]
    fn operations_on_single_elements_do_not_count() {
        let code = |text: &str| Params::from_bytes(text);
        let filtered = |text: &str| digest(numbers().filter("python", code(text)));
        assert_eq!(
            filtered("one"),
            filtered("other"),
            "code differs between processes"
        );
        let plain = digest(numbers());
        for same in [
            numbers().map("python", code("one")),
            numbers().map("native", code("one")),
            numbers().prefetch(3),
            numbers().cache(),
        ] {
            assert_eq!(digest(same), plain);
        }
    }

    #[test]
    fn paths_do_not_count() {
        let read = |pattern: &str| digest(Dataset::files(pattern).batch(8, false));
        assert_eq!(read("/data/*.txt"), read("s3://bucket/*.txt"));
        let listed = |names: &[&str]| {
            let count = names.len() as u64;
            let spec = ElementSpec::single(TensorSpec::fixed(Dtype::String, &[count])).expect("a spec");
            let tensors = vec![ConstantTensor::items(names.iter().copied())];
            digest(Dataset::tensor_slices(spec, tensors).batch(8, false))
        };
        assert_eq!(listed(&["/data/1", "/data/2"]), listed(&["/moved/1", "/moved/2"]));
        assert_ne!(listed(&["/data/1", "/data/2"]), listed(&["/data/1"]));
    }

    #[test]
    fn cycles_over_files_do_not_count() {
        let read = |length| digest(Dataset::files("/data/*").interleave(length, 1, |x| x.batch(2, false)));
        assert_eq!(read(2), read(64), "the default is the number of processors");
    }

    /// A changed digest would refuse the states of earlier versions. A change that is meant needs another
    /// version of the digest.
    #[test]
    fn the_digest_stays_the_same() {
        assert_eq!(digest(numbers()), 16_419_580_709_134_297_506);
        assert_eq!(
            digest(numbers().interleave(2, 1, |x| x.repeat(Some(2)))),
            7_486_323_735_006_961_851
        );
    }
}
