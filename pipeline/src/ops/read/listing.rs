//! The search for the files of a reader: finds the pattern of the `files` operation below the reader.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::dataset::Dataset;
use crate::graph::format::{Format, INDEX};
use crate::graph::tree::Op;
use crate::graph::tree::{Graph, Node};
use crate::ops::argument::Argument;
use crate::ops::files::Files;

use super::definition::Read;

impl Dataset {
    /// Declares the matching files to be indexes, if the file name of their pattern is the name of an
    /// index.
    pub(crate) fn of_indexes(mut self) -> Dataset {
        if let Some(node) = self.listing()
            && let Some(files) = self
                .nodes
                .get_mut(node)
                .and_then(|node| node.op.of_mut::<Files>())
            && files.pattern.rsplit('/').next() == Some(INDEX)
        {
            files.are_indexes = Some(true);
        }
        self
    }

    /// Reads files of `format` whose paths this dataset yields.
    ///
    /// Columns that are not declared are looked up in the files that this dataset lists, unless the format
    /// names others.
    pub(crate) fn read(self, mut format: Format) -> Dataset {
        let paths = if matches!(format, Format::Mds(_)) {
            self.of_indexes()
        } else {
            self
        };
        if let Some(columns) = format.columns_mut()
            && columns.example.is_none()
        {
            columns.example = paths.listed();
        }
        paths.then(Read(format))
    }

    /// Returns the pattern of the `files` operation whose paths this dataset yields, if such an
    /// operation exists.
    pub(crate) fn listed(&self) -> Option<String> {
        let files = self.nodes.get(self.listing()?)?.op.of::<Files>()?;
        Some(files.pattern.clone())
    }

    /// Returns the node of the `files` operation whose paths this dataset yields.
    fn listing(&self) -> Option<usize> {
        let mut at = self.nodes.len().checked_sub(1)?;
        loop {
            let node = self.nodes.get(at)?;
            if node.op.is::<Files>() {
                return Some(at);
            }
            match node.inputs[..] {
                [input] if node.op.yields_its_input() => at = input as usize,
                _ => return None,
            }
        }
    }
}

/// Returns the operation with `pattern` as the example for every reader of the argument's files. A
/// reader looks up the columns in a matching file.
pub(crate) fn with_example(mut op: Op, pattern: &str) -> Op {
    let of_argument = |graph: &Graph, node: &Node| {
        let input = node
            .inputs
            .first()
            .and_then(|input| graph.nodes().get(*input as usize));
        input.is_some_and(|input| input.op.is::<Argument>())
    };
    for graph in op.change().graphs_mut() {
        let nodes = graph.nodes().iter().map(|node| {
            let mut filled = node.clone();
            if of_argument(graph, node)
                && let Some(Read(format)) = filled.op.of_mut()
                && let Some(columns) = format.columns_mut()
            {
                columns.example.get_or_insert_with(|| pattern.to_owned());
            }
            filled
        });
        *graph = graph.with_ops(nodes.collect());
    }
    op
}

/// Returns whether the function body `graph` reads shards that an index lists.
pub(crate) fn is_of_shards(graph: &Graph) -> bool {
    let reads = |op: &Op| matches!(op.of(), Some(Read(Format::Mds(_))));
    graph.nodes().iter().any(|node| reads(&node.op))
}
