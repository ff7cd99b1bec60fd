//! The stages of a program, which are found by their place: by their node, within the functions whose bodies
//! contain them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stage::Stage;
use crate::graph::Graph;

/// The stages of one graph.
#[derive(Debug)]
pub(crate) struct Meter {
    stages: Vec<Arc<Stage>>,
    /// The meters of the operations that execute a body, by node.
    bodies: BTreeMap<usize, Arc<Meter>>,
}

impl Meter {
    /// Returns the meter of a dataset.
    pub(crate) fn new(graph: &Graph) -> Meter {
        Meter::of(graph, false)
    }

    /// Returns the meter of a graph. `is_shared` states that several trees of a body may run at once, on
    /// several threads.
    fn of(graph: &Graph, is_shared: bool) -> Meter {
        let nodes = graph.nodes();
        let bodies = nodes.iter().enumerate().filter_map(|(node, found)| {
            let body = found.op.body()?;
            Some((node, Arc::new(Meter::of(body, true))))
        });
        Meter {
            stages: nodes.iter().map(|_| Arc::new(Stage::new(is_shared))).collect(),
            bodies: bodies.collect(),
        }
    }

    /// Returns the stage of `node`.
    pub(crate) fn stage(&self, node: usize) -> Option<&Arc<Stage>> {
        self.stages.get(node)
    }

    /// Returns the meter of the body of `node`.
    pub(crate) fn body(&self, node: usize) -> Option<&Arc<Meter>> {
        self.bodies.get(&node)
    }

    /// Returns the stage at `path`. The path has the nodes of the operations whose bodies contain the stage,
    /// from the outside, and then the stage's own node.
    pub(crate) fn find(&self, path: &[usize]) -> Option<&Stage> {
        let (last, outer) = path.split_last()?;
        let within = outer
            .iter()
            .try_fold(self, |meter, node| meter.body(*node).map(|body| &**body))?;
        within.stage(*last).map(|stage| &**stage)
    }
}
