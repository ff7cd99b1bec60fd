//! The construction and check of graphs. A graph lists its nodes in topological order, and its last node is
//! the output. Every graph is valid: inputs precede their users, every node feeds exactly one other node, and
//! the limits hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::GraphError;
use super::limits::{DEPTH_MAX, NESTING_MAX, NODES_MAX};
use super::options::{Options, Travel};
use super::rewrites::Rewrites;
use super::settings::{Autotune, ExternalState, Threading};
use super::tree::{Execution, Graph, Node, Role};
use super::units::{SPLIT_SIZE_MAX, Units};

impl Graph {
    /// Checks `nodes`, whose last node is the output, and makes a graph from them.
    ///
    /// # Errors
    /// [`GraphError`] that names the node and the rule that the node breaks.
    pub fn new(nodes: Vec<Node>) -> Result<Graph, GraphError> {
        let graph = Graph {
            nodes,
            split_size: None,
            execution: Execution::default(),
        };
        graph.check(Role::Dataset)?;
        Ok(graph)
    }

    /// Checks `nodes` as the body of a function, whose sources may be the function's argument.
    ///
    /// # Errors
    /// The errors of [`Graph::new`].
    pub fn function(nodes: Vec<Node>) -> Result<Graph, GraphError> {
        let graph = Graph {
            nodes,
            split_size: None,
            execution: Execution::default(),
        };
        graph.check(Role::Function)?;
        Ok(graph)
    }

    /// Returns the index of the output.
    pub fn output(&self) -> usize {
        // The subtraction cannot underflow, because a graph has at least one node.
        self.nodes.len() - 1
    }

    /// Returns the indices of the sources in depth-first order from the output. The index in this list is the
    /// `source` of a split. Sources inside functions are left out, because each call reads such a source
    /// whole.
    pub fn sources(&self) -> Vec<usize> {
        let mut sources = Vec::new();
        let mut open = vec![self.output()];
        while let Some(index) = open.pop() {
            let node = &self.nodes[index];
            if node.inputs.is_empty() {
                sources.push(index);
            }
            open.extend(node.inputs.iter().rev().map(|input| *input as usize));
        }
        sources
    }

    /// Returns the number of `node` in the graph as it was defined, before rewrites. Random draws depend on
    /// the original number of a node, and messages name the number.
    pub(crate) fn origin(&self, node: usize) -> u32 {
        let origin = self.execution.origins.get(node).copied();
        // The cast is exact, because a graph has at most 4096 nodes.
        origin.unwrap_or(node as u32)
    }

    /// Returns the graph as it was defined, before rewrites.
    pub(crate) fn as_defined(&self) -> Graph {
        match &self.execution.defined {
            Some(nodes) => self.executed_as(nodes.to_vec(), Execution::default()),
            None => self.clone(),
        }
    }

    /// Returns whether neighbouring maps with the same schedule are executed as one step.
    pub(crate) fn fuses_maps(&self) -> bool {
        !self.execution.keeps_maps_apart
    }

    /// Returns whether the sources of the graph receive splits when it is executed.
    pub(crate) fn is_fed(&self) -> bool {
        self.execution.is_fed
    }

    /// Returns the options for threads, for tuning and for external state. If several operations set an
    /// option, the last setting counts.
    pub(crate) fn settings(&self) -> (Threading, Autotune, ExternalState) {
        let threading = self.options().find_map(|options| options.threading);
        let autotune = self.options().find_map(|options| options.autotune);
        let external_state = self.options().find_map(|options| options.external_state);
        (
            threading.unwrap_or_default(),
            autotune.unwrap_or_default(),
            external_state.unwrap_or_default(),
        )
    }

    /// Returns the option for rewrites. If several operations set the option, the last setting counts.
    pub(crate) fn rewrites(&self) -> Option<Rewrites> {
        self.options().find_map(|options| options.rewrites)
    }

    /// Returns the options in the graph, the last first.
    pub(crate) fn options(&self) -> impl Iterator<Item = &Options> {
        self.nodes.iter().rev().filter_map(|node| node.op.options())
    }

    /// Returns this graph with the nodes that a rewrite made from its own. The nodes need no check.
    pub(crate) fn executed_as(&self, nodes: Vec<Node>, execution: Execution) -> Graph {
        Graph {
            nodes,
            split_size: self.split_size,
            execution,
        }
    }

    /// Returns the option for the order of elements. If several operations set the option, the last in the
    /// order of nodes counts.
    pub(crate) fn deterministic(&self) -> Option<bool> {
        self.options().find_map(|options| options.deterministic)
    }

    /// Returns whether the graph, or the graph of one of its functions, ignores errors.
    pub(crate) fn ignores_errors(&self) -> bool {
        self.nodes.iter().any(|node| {
            let mut graphs = node.op.graphs().into_iter();
            node.op.ignores_errors() || graphs.any(|(graph, _)| graph.ignores_errors())
        })
    }

    /// Encodes the part of the graph that provides the input of `node`.
    pub(crate) fn below(&self, node: usize) -> Result<Vec<u8>, GraphError> {
        let mut places = vec![None; self.nodes.len()];
        let mut open: Vec<usize> = self.nodes[node]
            .inputs
            .iter()
            .map(|input| *input as usize)
            .collect();
        while let Some(index) = open.pop() {
            places[index] = Some(0);
            open.extend(self.nodes[index].inputs.iter().map(|input| *input as usize));
        }
        let mut nodes: Vec<Node> = Vec::new();
        for (node, place) in self.nodes.iter().zip(0..) {
            if places[place].is_some() {
                // The cast is exact, because a graph has at most 4096 nodes. The inputs have their new places
                // already, because they precede their users.
                places[place] = Some(nodes.len() as u32);
                let inputs = node.inputs.iter().filter_map(|input| places[*input as usize]);
                nodes.push(Node {
                    op: node.op.clone(),
                    inputs: inputs.collect(),
                });
            }
        }
        Graph::function(nodes)?.to_bytes()
    }

    /// Returns the compression of elements on a network, as set by the last option for compression.
    pub fn travel(&self) -> Option<Travel> {
        self.options().find_map(|options| options.compression)
    }

    /// Returns whether elements keep their order, if no option of a surrounding graph says otherwise. The
    /// default is `true`.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.deterministic().unwrap_or(true)
    }

    /// Returns this graph with nodes that differ from its own only in their declarations. The nodes need no
    /// check.
    pub(crate) fn with_ops(&self, nodes: Vec<Node>) -> Graph {
        debug_assert_eq!(nodes.len(), self.nodes.len());
        Graph {
            nodes,
            split_size: self.split_size,
            execution: self.execution.clone(),
        }
    }

    /// Returns the graph with its counted sources divided into splits of `positions` positions.
    ///
    /// # Errors
    /// [`GraphError::SplitSize`] if `positions` is not within 1 to [`SPLIT_SIZE_MAX`].
    pub fn with_split_size(self, positions: u64) -> Result<Graph, GraphError> {
        if !(1..=SPLIT_SIZE_MAX).contains(&positions) {
            return Err(GraphError::SplitSize { positions });
        }
        let split_size = Some(positions);
        Ok(Graph { split_size, ..self })
    }

    /// Returns the number of positions of a split of the counted sources; `None` means the default.
    pub fn split_size(&self) -> Option<u64> {
        self.split_size
    }

    /// Returns the division of a source of `positions` positions into splits.
    pub fn units(&self, positions: u64) -> Units {
        match self.split_size {
            Some(unit) => Units::sized(positions, unit),
            None => Units::of(positions),
        }
    }

    fn check(&self, role: Role) -> Result<(), GraphError> {
        let mut budget = NODES_MAX;
        self.check_within(role, &mut budget, 0)?;
        Ok(())
    }

    /// Checks the graph, and returns its depth.
    fn check_within(&self, role: Role, budget: &mut usize, nesting: usize) -> Result<usize, GraphError> {
        if nesting > NESTING_MAX {
            return Err(GraphError::TooLarge {
                what: "nesting of functions",
                limit: NESTING_MAX,
            });
        }
        if self.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        *budget = budget.checked_sub(self.nodes.len()).ok_or(GraphError::TooLarge {
            what: "number of operations",
            limit: NODES_MAX,
        })?;
        let mut users = vec![0u32; self.nodes.len()];
        let mut depths = vec![0usize; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let invalid = |reason: String| GraphError::Invalid {
                node: index,
                op: node.op.name(),
                reason,
            };
            check_arity(node).map_err(invalid)?;
            node.op.check_place(role, nesting).map_err(invalid)?;
            node.op.check(node.inputs.len()).map_err(invalid)?;
            for input in &node.inputs {
                let input = *input as usize;
                if input >= index {
                    return Err(invalid(format!("reads node {input}, which does not precede it")));
                }
                users[input] += 1;
                depths[index] = depths[index].max(depths[input]);
            }
            let mut inner_depth = 0;
            for (inner, role) in node.op.graphs() {
                inner_depth = inner_depth.max(inner.check_within(role, budget, nesting + 1)?);
            }
            depths[index] += 1 + inner_depth;
            if depths[index] > DEPTH_MAX {
                return Err(GraphError::TooLarge {
                    what: "operations one behind the other",
                    limit: DEPTH_MAX,
                });
            }
        }
        self.check_users(&users)?;
        Ok(depths[self.output()])
    }

    fn check_users(&self, users: &[u32]) -> Result<(), GraphError> {
        for (index, (node, users)) in self.nodes.iter().zip(users).enumerate() {
            let expected = u32::from(index != self.output());
            if *users != expected {
                let reason = format!("feeds {users} operations, expected {expected}");
                return Err(GraphError::Invalid {
                    node: index,
                    op: node.op.name(),
                    reason,
                });
            }
        }
        Ok(())
    }
}

fn check_arity(node: &Node) -> Result<(), String> {
    let (arity, inputs) = (node.op.arity(), node.inputs.len());
    if arity.contains(&inputs) {
        return Ok(());
    }
    let more = if arity.start() == arity.end() {
        ""
    } else {
        " or more"
    };
    Err(format!("has {inputs} inputs, expected {}{more}", arity.start()))
}
