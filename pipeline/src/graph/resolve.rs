//! Writes the signatures of registered functions into a graph, so that a process without those functions,
//! such as a dispatcher, can analyse it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::tree::{Graph, Node, Resolution};

impl Resolution<'_> {
    /// Writes the signatures into `graph`, whose argument has the spec `argument`.
    ///
    /// # Errors
    /// The errors of [`Graph::facts`].
    pub fn resolve(&self, graph: &mut Graph, argument: Option<&ElementSpec>) -> Result<(), AnalysisError> {
        *graph = graph.resolved_within(self.registry, argument)?;
        Ok(())
    }
}

impl Graph {
    /// Returns the graph with the signatures of all functions and sources that `registry` knows declared in
    /// it.
    ///
    /// # Errors
    /// The errors of [`Graph::facts`].
    pub fn resolved(&self, registry: &dyn Registry) -> Result<Graph, AnalysisError> {
        self.resolved_within(registry, None)
    }

    /// Returns the graph with the columns of all files that describe themselves declared in it. Blocks on
    /// storage where `registry` reads files. Returns an unchanged copy if all columns are declared already.
    ///
    /// # Errors
    /// The errors of [`Graph::facts`].
    pub fn described(&self, registry: &dyn Registry) -> Result<Graph, AnalysisError> {
        if self.lacks_columns() {
            self.resolved(registry)
        } else {
            Ok(self.clone())
        }
    }

    /// Returns whether the graph, or the graph of one of its functions, reads files whose columns are not
    /// declared.
    fn lacks_columns(&self) -> bool {
        self.nodes().iter().any(|node| {
            node.op.lacks_columns() || node.op.graphs().iter().any(|(graph, _)| graph.lacks_columns())
        })
    }

    fn resolved_within(
        &self,
        registry: &dyn Registry,
        argument: Option<&ElementSpec>,
    ) -> Result<Graph, AnalysisError> {
        let specs = node_specs(self, registry, argument)?;
        let mut nodes = Vec::with_capacity(specs.len());
        for (node, output) in self.nodes().iter().zip(&specs) {
            let input = node.inputs.first().map(|input| &specs[*input as usize]);
            let resolution = Resolution {
                registry,
                input,
                output,
            };
            let mut op = node.op.clone();
            op.change().resolve(&resolution)?;
            nodes.push(Node {
                op,
                inputs: node.inputs.clone(),
            });
        }
        Ok(self.with_ops(nodes))
    }
}
