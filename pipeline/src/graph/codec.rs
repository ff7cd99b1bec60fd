//! The encoding of graphs as bytes: CBOR with numbered fields. The parameters of an operation are nested
//! bytes. The decoder therefore recognises an unknown operation by its name before it decodes anything else
//! of the operation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;

use super::error::GraphError;
use super::limits::{GRAPH_BYTES_MAX, NESTING_MAX, NODES_MAX};
use super::schedule::{Cycle, Schedule};
use super::tree::{Graph, Node};
use super::tree::{Op, Operation};
use minicbor::bytes::ByteVec;

/// The encoded form of a graph.
#[derive(Debug, minicbor::Encode, minicbor::Decode)]
#[cbor(map)]
struct GraphRecord {
    #[n(0)]
    nodes: Vec<NodeRecord>,
    /// The number of positions of a split; `None` means the default.
    #[n(1)]
    split_size: Option<u64>,
}

/// The encoded form of a node.
#[derive(Debug, minicbor::Encode, minicbor::Decode)]
#[cbor(map)]
struct NodeRecord {
    /// The name of the operation.
    #[n(0)]
    op: String,
    /// The encoded parameters.
    #[n(1)]
    params: ByteVec,
    /// The indices of the node's inputs.
    #[n(2)]
    inputs: Vec<u32>,
    /// The functions of the operation, as encoded graphs.
    #[n(3)]
    functions: Vec<ByteVec>,
    /// The schedule of the operation's calls, for operations that have one.
    #[n(4)]
    schedule: Option<Schedule>,
    /// The cycle of the datasets that the operation reads in turn, for operations that have one.
    #[n(5)]
    cycle: Option<Cycle>,
}

impl Graph {
    /// Encodes the graph.
    ///
    /// # Errors
    /// [`GraphError::TooLarge`] if the encoding is longer than [`GRAPH_BYTES_MAX`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, GraphError> {
        let record = GraphRecord {
            nodes: self.nodes().iter().map(encode_node).collect::<Result<_, _>>()?,
            split_size: self.split_size(),
        };
        let bytes = encoded(&record)?;
        if bytes.len() > GRAPH_BYTES_MAX {
            return Err(GraphError::TooLarge {
                what: "encoded bytes",
                limit: GRAPH_BYTES_MAX,
            });
        }
        Ok(bytes)
    }

    /// Decodes a graph, and checks it as [`Graph::new`] does. `find` returns the decoder of an operation.
    ///
    /// # Errors
    /// [`GraphError`]. The error of an unknown operation names the operation, whose other fields are not
    /// decoded.
    pub(crate) fn decoded(bytes: &[u8], find: Find) -> Result<Graph, GraphError> {
        if bytes.len() > GRAPH_BYTES_MAX {
            return Err(GraphError::TooLarge {
                what: "encoded bytes",
                limit: GRAPH_BYTES_MAX,
            });
        }
        let record = decode_record(bytes)?;
        let split_size = record.split_size;
        let graph = Graph::new(decode_nodes(record, 0, find)?)?;
        match split_size {
            Some(positions) => graph.with_split_size(positions),
            None => Ok(graph),
        }
    }
}

fn encode_node(node: &Node) -> Result<NodeRecord, GraphError> {
    let graphs = node.op.graphs();
    let functions: Result<Vec<Vec<u8>>, _> = graphs.iter().map(|(graph, _)| graph.to_bytes()).collect();
    Ok(NodeRecord {
        op: node.op.name().to_owned(),
        params: node.op.encode()?.into(),
        inputs: node.inputs.clone(),
        functions: functions?.into_iter().map(ByteVec::from).collect(),
        schedule: node.op.schedule(),
        cycle: node.op.cycle(),
    })
}

fn decode_record(bytes: &[u8]) -> Result<GraphRecord, GraphError> {
    minicbor::decode(bytes).map_err(|error| GraphError::Malformed(error.to_string()))
}

fn decode_nodes(record: GraphRecord, nesting: usize, find: Find) -> Result<Vec<Node>, GraphError> {
    if nesting > NESTING_MAX {
        return Err(GraphError::TooLarge {
            what: "nesting of functions",
            limit: NESTING_MAX,
        });
    }
    if record.nodes.len() > NODES_MAX {
        return Err(GraphError::TooLarge {
            what: "number of operations",
            limit: NODES_MAX,
        });
    }
    let nodes = record.nodes.into_iter().enumerate();
    nodes
        .map(|(index, node)| decode_node(index, node, nesting, find))
        .collect()
}

fn decode_node(index: usize, record: NodeRecord, nesting: usize, find: Find) -> Result<Node, GraphError> {
    let Some(decode) = find(&record.op) else {
        return Err(GraphError::UnknownOp {
            op: record.op,
            node: index,
        });
    };
    let op = decode(&Encoded {
        node: index,
        nesting,
        find,
        record: &record,
    })?;
    Ok(Node {
        op,
        inputs: record.inputs,
    })
}

/// A function that decodes an operation.
pub(crate) type Decode = fn(&Encoded<'_>) -> Result<Op, GraphError>;

/// A function that returns the decoder of the operation with a name; `None` for an unknown name.
pub(crate) type Find = fn(&str) -> Option<Decode>;

/// An operation that is being decoded.
pub(crate) struct Encoded<'b> {
    node: usize,
    nesting: usize,
    find: Find,
    record: &'b NodeRecord,
}

impl<'b> Encoded<'b> {
    /// Returns the name of the operation.
    pub(crate) fn name(&self) -> &'b str {
        &self.record.op
    }

    /// Decodes the parameters.
    pub(crate) fn params<T: minicbor::Decode<'b, ()>>(&self) -> Result<T, GraphError> {
        minicbor::decode(&self.record.params).map_err(|error| self.malformed(error))
    }

    /// Returns the encoded parameters.
    pub(crate) fn param_bytes(&self) -> &'b [u8] {
        &self.record.params
    }

    /// Returns the schedule of the operation's calls.
    pub(crate) fn schedule(&self) -> Schedule {
        self.record.schedule.unwrap_or_default()
    }

    /// Returns the cycle of the operation's datasets.
    pub(crate) fn cycle(&self) -> Result<Cycle, GraphError> {
        self.record.cycle.ok_or_else(|| self.malformed("has no cycle"))
    }

    /// Returns whether the operation has graphs among its parameters.
    pub(crate) fn has_graphs(&self) -> bool {
        !self.record.functions.is_empty()
    }

    /// Decodes the body of a function, which is the graph at `index`.
    pub(crate) fn function(&self, index: usize, what: &str) -> Result<Graph, GraphError> {
        Graph::function(self.nodes(index, what)?)
    }

    /// Decodes an independent dataset, which is the graph at `index`.
    pub(crate) fn dataset(&self, index: usize, what: &str) -> Result<Graph, GraphError> {
        Graph::new(self.nodes(index, what)?)
    }

    /// Returns the error of invalid parameters.
    pub(crate) fn malformed(&self, reason: impl Display) -> GraphError {
        GraphError::Malformed(format!(
            "parameters of operation {:?} (node {}): {reason}",
            self.record.op, self.node
        ))
    }

    fn nodes(&self, index: usize, what: &str) -> Result<Vec<Node>, GraphError> {
        let graph = self.record.functions.get(index);
        let graph = graph.ok_or_else(|| self.malformed(format!("has no {what}")))?;
        decode_nodes(decode_record(graph)?, self.nesting + 1, self.find)
    }
}

/// Decodes an operation whose type is also the type of its parameters.
pub(crate) fn decode_params<T: Operation + for<'b> minicbor::Decode<'b, ()>>(
    encoded: &Encoded<'_>,
) -> Result<Op, GraphError> {
    Ok(Op::new(encoded.params::<T>()?))
}

/// Encodes `value` as bytes.
pub(crate) fn encoded<T: minicbor::Encode<()>>(value: &T) -> Result<Vec<u8>, GraphError> {
    // Writing to memory cannot fail, so the only possible error is that the value has no encoding.
    minicbor::to_vec(value).map_err(|error| GraphError::Malformed(error.to_string()))
}
