//! The digest of the operations that decide which element has which position. A loader compares it to detect
//! that a saved position belongs to another dataset.
//!
//! Operations that compute each element alone, or only buffer elements, do not count. A program may change
//! them, and continue at a position. Paths and the code of Python functions do not count either, because they
//! differ between machines and processes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::exec::random::{digest_of, mix};
use crate::graph::{Files, Graph, GraphError, Node, Role};

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
    let mut found: Vec<Found> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let inputs: Vec<&Found> = node.inputs.iter().map(|at| &found[*at as usize]).collect();
        let next = Found::of(node, &inputs)?;
        found.push(next);
    }
    let root = found.last().map_or(0, |root| root.digest);
    Ok(mix(root, graph.split_size().unwrap_or_default()))
}

/// A node of a graph.
struct Found {
    /// The digest of the node and of the nodes below it.
    digest: u64,
    /// Whether the elements are the paths of listed files, of which each split has one.
    are_files: bool,
}

impl Found {
    fn of(node: &Node, inputs: &[&Found]) -> Result<Found, GraphError> {
        let below = inputs.first().copied();
        let is_over_files = below.is_some_and(|below| below.are_files);
        let are_files = node.op.is::<Files>() || (is_over_files && node.op.passes_files());
        let Some(params) = node.op.deciding_params()? else {
            let digest = below.map_or(0, |below| below.digest);
            return Ok(Found { digest, are_files });
        };
        let mut digest = mix(digest_of(node.op.name().as_bytes()), digest_of(&params));
        // A cycle over one file has one member, whatever its length. The default length is the number of
        // processors.
        if let Some(cycle) = node.op.cycle().filter(|_| !is_over_files) {
            digest = mix(digest, mix(cycle.length, cycle.block));
        }
        for (graph, role) in node.op.graphs() {
            let of_graph = match role {
                Role::Dataset | Role::Function => self::digest(graph)?,
                // The value decides, for example as the key of a group.
                Role::Value => digest_of(&graph.to_bytes()?),
            };
            digest = mix(digest, of_graph);
        }
        let digest = inputs
            .iter()
            .fold(digest, |digest, input| mix(digest, input.digest));
        Ok(Found { digest, are_files })
    }
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
    fn keys_and_saved_chunks_count() {
        let grouped = |divisor: i64| {
            let key = |x: Dataset| x.map_expr(col("") % divisor);
            digest(Dataset::range(0, 99, 1).group_by_window(key, 4, |window| window.batch(4, false)))
        };
        assert_eq!(grouped(2), grouped(2));
        assert_ne!(grouped(2), grouped(3));
        let saved = |path: &str, count| digest(Dataset::chunks(path, Some(count), None));
        assert_eq!(saved("/one", 9), saved("/moved", 9));
        assert_ne!(saved("/one", 9), saved("/one", 8));
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
        assert_eq!(read(2), read(64), "a split has one file");
        let of_lines = |length| {
            let lines = Dataset::files("/data/*").flat_map(|x| x.batch(1, false));
            digest(lines.interleave(length, 1, |x| x.batch(2, false)))
        };
        assert_ne!(of_lines(2), of_lines(64), "a split has many lines");
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
