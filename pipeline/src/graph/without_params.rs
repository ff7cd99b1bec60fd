//! A definition without the parameters of a registered function, for comparisons of definitions.
//!
//! Owns the walk over nested graphs. Each operation knows its own parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::params::Params;
use super::tree::Graph;

impl Graph {
    /// Returns the definition without the parameters of functions and sources that are registered as `name`,
    /// including those within functions. Two processes may encode equal parameters differently, for example
    /// code of Python.
    pub fn without_params(&self, name: &str) -> Graph {
        let mut graph = self.clone();
        graph.remove_params(name);
        graph
    }

    fn remove_params(&mut self, name: &str) {
        for node in &mut self.nodes {
            let operation = node.op.change();
            if let Some(params) = operation.params_mut(name) {
                *params = Params::none();
            }
            for graph in operation.graphs_mut() {
                graph.remove_params(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::{Dataset, Graph, Params};

    fn graph(params: &str) -> Graph {
        let code = || Params::from_bytes(params);
        let other = Params::from_bytes("other");
        let dataset = Dataset::range(0, 9, 1).map("python", code()).map("native", other);
        let dataset = dataset.filter("python", code()).take_while("python", code());
        let dataset = dataset.interleave(2, 1, |x| x.map("python", code()));
        dataset.flat_map_registered("python", code()).graph().unwrap()
    }

    #[test]
    fn only_the_named_parameters_are_removed() {
        let (one, two) = (graph("one"), graph("two"));
        assert_ne!(one, two);
        let removed = one.without_params("python");
        assert_eq!(removed, two.without_params("python"));
        assert_eq!(one.without_params("unknown"), one);
        assert_ne!(removed, removed.without_params("native"));
    }
}
