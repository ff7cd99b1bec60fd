//! Graphs as bytes: CBOR with numbered fields. An operation's parameters are nested bytes, so that an unknown
//! operation is recognised by its name before anything else of it is read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;

use super::error::GraphError;
use super::limits::{GRAPH_BYTES_MAX, NESTING_MAX, NODES_MAX};
use super::schedule::{Cycle, Schedule};
use super::tree::{Graph, Node};
use super::tree::{Op, Operation};
use minicbor::bytes::ByteVec;

/// A graph on the wire.
#[derive(Debug, minicbor::Encode, minicbor::Decode)]
#[cbor(map)]
struct GraphRecord {
    #[n(0)]
    nodes: Vec<NodeRecord>,
    /// Positions of a split, where that was asked for.
    #[n(1)]
    split_size: Option<u64>,
}

/// A node on the wire.
#[derive(Debug, minicbor::Encode, minicbor::Decode)]
#[cbor(map)]
struct NodeRecord {
    /// The operation's name.
    #[n(0)]
    op: String,
    /// The parameters, encoded by themselves.
    #[n(1)]
    params: ByteVec,
    /// The nodes it reads.
    #[n(2)]
    inputs: Vec<u32>,
    /// The functions: encoded graphs.
    #[n(3)]
    functions: Vec<ByteVec>,
    /// The schedule of its calls, where it makes calls.
    #[n(4)]
    schedule: Option<Schedule>,
    /// The cycle of its datasets, where they take turns.
    #[n(5)]
    cycle: Option<Cycle>,
}

impl Graph {
    /// The encoding of the graph.
    ///
    /// # Errors
    /// [`GraphError::TooLarge`] beyond [`GRAPH_BYTES_MAX`].
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

    /// Reads an encoded graph of operations that `find` finds, and checks it as [`Graph::new`] does.
    ///
    /// # Errors
    /// [`GraphError`]: an unknown operation is named; nothing else of it is looked at.
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

/// Reads an operation.
pub(crate) type Decode = fn(&Encoded<'_>) -> Result<Op, GraphError>;

/// Finds what reads the operation of a name.
pub(crate) type Find = fn(&str) -> Option<Decode>;

/// An operation that is being read.
pub(crate) struct Encoded<'b> {
    node: usize,
    nesting: usize,
    find: Find,
    record: &'b NodeRecord,
}

impl<'b> Encoded<'b> {
    /// The name of the operation.
    pub(crate) fn name(&self) -> &'b str {
        &self.record.op
    }

    /// Reads the parameters.
    pub(crate) fn params<T: minicbor::Decode<'b, ()>>(&self) -> Result<T, GraphError> {
        minicbor::decode(&self.record.params).map_err(|error| self.malformed(error))
    }

    /// The parameters as they were sent.
    pub(crate) fn param_bytes(&self) -> &'b [u8] {
        &self.record.params
    }

    /// Returns the schedule of its calls.
    pub(crate) fn schedule(&self) -> Schedule {
        self.record.schedule.unwrap_or_default()
    }

    /// Returns the cycle of its datasets.
    pub(crate) fn cycle(&self) -> Result<Cycle, GraphError> {
        self.record.cycle.ok_or_else(|| self.malformed("has no cycle"))
    }

    /// Returns whether graphs are among the parameters.
    pub(crate) fn has_graphs(&self) -> bool {
        !self.record.functions.is_empty()
    }

    /// Reads the body of a function, which is graph number `index`.
    pub(crate) fn function(&self, index: usize, what: &str) -> Result<Graph, GraphError> {
        Graph::function(self.nodes(index, what)?)
    }

    /// Reads a dataset of its own, which is graph number `index`.
    pub(crate) fn dataset(&self, index: usize, what: &str) -> Result<Graph, GraphError> {
        Graph::new(self.nodes(index, what)?)
    }

    /// The error of parameters that are not what they should be.
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

/// Reads an operation that is its parameters.
pub(crate) fn decode_params<T: Operation + for<'b> minicbor::Decode<'b, ()>>(
    encoded: &Encoded<'_>,
) -> Result<Op, GraphError> {
    Ok(Op::new(encoded.params::<T>()?))
}

/// `value` as bytes.
pub(crate) fn encoded<T: minicbor::Encode<()>>(value: &T) -> Result<Vec<u8>, GraphError> {
    // Writing to memory cannot fail, so that only a value's own refusal is left.
    minicbor::to_vec(value).map_err(|error| GraphError::Malformed(error.to_string()))
}
