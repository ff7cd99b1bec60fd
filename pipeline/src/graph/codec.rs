//! Graphs as bytes: CBOR with numbered fields. An operation's parameters are nested bytes, so that an unknown
//! operation is recognised by its name before anything else of it is read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::definition::{GRAPH_BYTES_MAX, Graph, NESTING_MAX, NODES_MAX, Node};
use super::error::GraphError;
use super::fold::Fold;
use super::format::Format;
use super::function::Function;
use super::group::{Grouping, WindowSize};
use super::image::ImageFunction;
use super::kept::Kept;
use super::native::Native;
use super::op::{Cycle, FlatMap, Op, Schedule};
use super::predicate::Predicate;
use super::step::Step;

/// A graph on the wire.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
struct GraphRecord {
    #[n(0)]
    nodes: Vec<NodeRecord>,
    /// Positions of a split, where that was asked for.
    #[n(1)]
    split_size: Option<u64>,
}

/// A node on the wire.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
struct NodeRecord {
    /// The operation's name.
    #[n(0)]
    op: String,
    /// Its parameters, encoded by themselves.
    #[n(1)]
    params: ByteVec,
    /// The nodes it reads.
    #[n(2)]
    inputs: Vec<u32>,
    /// Its functions: encoded graphs.
    #[n(3)]
    functions: Vec<ByteVec>,
    /// How its calls are spread, where it makes calls.
    #[n(4)]
    schedule: Option<Schedule>,
    /// How its datasets take turns, where they do.
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

    /// Reads an encoded graph and checks it as [`Graph::new`] does.
    ///
    /// # Errors
    /// [`GraphError`]: an unknown operation is named; nothing else of it is looked at.
    pub fn from_bytes(bytes: &[u8]) -> Result<Graph, GraphError> {
        if bytes.len() > GRAPH_BYTES_MAX {
            return Err(GraphError::TooLarge {
                what: "encoded bytes",
                limit: GRAPH_BYTES_MAX,
            });
        }
        let record = decode_record(bytes)?;
        let split_size = record.split_size;
        let graph = Graph::new(decode_nodes(record, 0)?)?;
        match split_size {
            Some(positions) => graph.with_split_size(positions),
            None => Ok(graph),
        }
    }
}

fn encode_node(node: &Node) -> Result<NodeRecord, GraphError> {
    let graphs = node.op.graphs();
    let functions: Result<Vec<Vec<u8>>, _> = graphs.iter().map(|(graph, _)| graph.to_bytes()).collect();
    let (mut schedule, mut cycle) = (None, None);
    let params = match &node.op {
        Op::Range(params) => encoded(params)?,
        Op::Counter(params) => encoded(params)?,
        Op::Random(params) => encoded(params)?,
        Op::Tensors(params) => encoded(params)?,
        Op::TensorSlices(params) => encoded(params)?,
        Op::Read(format) => format.encode()?,
        Op::Files(params) => encoded(params)?,
        Op::Source(params) => encoded(params)?,
        Op::Service(params) => encoded(params)?,
        Op::Argument | Op::Unbatch | Op::Concatenate => Vec::new(),
        Op::Map(function, calls) => {
            schedule = Some(*calls);
            match function {
                Function::Registered(params) => encoded(params)?,
                Function::Image(image) => image.encode()?,
                Function::Native(native) => native.encode()?,
            }
        }
        Op::Filter(Predicate::Registered(params)) | Op::TakeWhile(Predicate::Registered(params)) => {
            encoded(params)?
        }
        Op::Filter(Predicate::Expr(expr)) | Op::TakeWhile(Predicate::Expr(expr)) => encoded(expr)?,
        Op::Batch(params) | Op::RaggedBatch(params) => encoded(params)?,
        Op::PaddedBatch(params) => encoded(params)?,
        Op::GroupByWindow(grouping) => match &grouping.size {
            WindowSize::Fixed(size) => encoded(&Some(*size))?,
            WindowSize::ByKey(_) => encoded(&None::<u64>)?,
        },
        Op::Window(_, params) => encoded(params)?,
        Op::Bucket(_, params) => encoded(params)?,
        Op::Shuffle(params) => encoded(params)?,
        Op::Repeat(params) => encoded(params)?,
        Op::Take(params) | Op::Skip(params) => encoded(params)?,
        Op::Shard(params) => encoded(params)?,
        Op::Enumerate(params) => encoded(params)?,
        Op::Prefetch(params) => encoded(params)?,
        Op::Options(params) => encoded(params)?,
        Op::Zip(params) => encoded(params)?,
        Op::Sample(params) => encoded(params)?,
        Op::Choose(_, params) => encoded(params)?,
        Op::Step(step) => step.encode()?,
        Op::Fold(fold) => fold.encode()?,
        Op::Kept(kept) => kept.encode()?,
        Op::FlatMap(function) => encode_flat_map(function)?,
        Op::Interleave(function, turns) => {
            cycle = Some(*turns);
            encode_flat_map(function)?
        }
    };
    Ok(NodeRecord {
        op: node.op.name().to_owned(),
        params: params.into(),
        inputs: node.inputs.clone(),
        functions: functions?.into_iter().map(ByteVec::from).collect(),
        schedule,
        cycle,
    })
}

/// The parameters of a function that is no graph; a graph is encoded beside them.
fn encode_flat_map(function: &FlatMap) -> Result<Vec<u8>, GraphError> {
    match function {
        FlatMap::Registered(params) => encoded(params),
        FlatMap::Graph(_) => Ok(Vec::new()),
    }
}

fn decode_record(bytes: &[u8]) -> Result<GraphRecord, GraphError> {
    minicbor::decode(bytes).map_err(|error| GraphError::Malformed(error.to_string()))
}

/// The nodes of a graph within another that is nested this deep.
fn inner_nodes(bytes: &[u8], nesting: usize) -> Result<Vec<Node>, GraphError> {
    decode_nodes(decode_record(bytes)?, nesting + 1)
}

fn decode_nodes(record: GraphRecord, nesting: usize) -> Result<Vec<Node>, GraphError> {
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
        .map(|(index, node)| decode_node(index, node, nesting))
        .collect()
}

fn decode_node(index: usize, record: NodeRecord, nesting: usize) -> Result<Node, GraphError> {
    let params = Parameters {
        node: index,
        op: &record.op,
        bytes: &record.params,
    };
    let op = if let Some(function) = decode_function(&params)? {
        Op::Map(function, record.schedule.unwrap_or_default())
    } else if let Some(format) = Format::decode(&record.op, &params)? {
        Op::Read(format)
    } else if let Some(op) = decode_plain(&params)? {
        op
    } else if let Some(step) = Step::decode(&params)? {
        Op::Step(step)
    } else if let Some(op) = decode_with_graphs(&params, &record, nesting)? {
        op
    } else {
        return Err(GraphError::UnknownOp {
            op: record.op,
            node: index,
        });
    };
    Ok(Node {
        op,
        inputs: record.inputs,
    })
}

/// The function of an operation that is a map.
fn decode_function(params: &Parameters<'_>) -> Result<Option<Function>, GraphError> {
    Ok(Some(match params.op {
        "map" => Function::Registered(params.decode()?),
        _ if ImageFunction::NAMES.contains(&params.op) => {
            return Ok(ImageFunction::decode(params)?.map(Function::Image));
        }
        _ => match Native::decode(params.op, params.bytes) {
            Some(native) => Function::Native(native.map_err(|error| params.malformed(error))?),
            None => return Ok(None),
        },
    }))
}

/// An operation without graphs.
fn decode_plain(params: &Parameters<'_>) -> Result<Option<Op>, GraphError> {
    Ok(Some(match params.op {
        "range" => Op::Range(params.decode()?),
        "counter" => Op::Counter(params.decode()?),
        "random" => Op::Random(params.decode()?),
        "tensors" => Op::Tensors(params.decode()?),
        "tensor_slices" => Op::TensorSlices(params.decode()?),
        "files" => Op::Files(params.decode()?),
        "source" => Op::Source(params.decode()?),
        "service" => Op::Service(params.decode()?),
        "argument" => Op::Argument,
        "filter" => Op::Filter(Predicate::Registered(params.decode()?)),
        "filter_expr" => Op::Filter(Predicate::Expr(params.decode()?)),
        "batch" => Op::Batch(params.decode()?),
        "unbatch" => Op::Unbatch,
        "shuffle" => Op::Shuffle(params.decode()?),
        "repeat" => Op::Repeat(params.decode()?),
        "take" => Op::Take(params.decode()?),
        "skip" => Op::Skip(params.decode()?),
        "shard" => Op::Shard(params.decode()?),
        "enumerate" => Op::Enumerate(params.decode()?),
        "prefetch" => Op::Prefetch(params.decode()?),
        "options" => Op::Options(params.decode()?),
        "zip" => Op::Zip(params.decode()?),
        "concatenate" => Op::Concatenate,
        "sample" => Op::Sample(params.decode()?),
        "padded_batch" => Op::PaddedBatch(params.decode()?),
        "ragged_batch" => Op::RaggedBatch(params.decode()?),
        "take_while" => Op::TakeWhile(Predicate::Registered(params.decode()?)),
        "take_while_expr" => Op::TakeWhile(Predicate::Expr(params.decode()?)),
        _ => return Ok(None),
    }))
}

/// An operation that has graphs as parameters, or may have.
fn decode_with_graphs(
    params: &Parameters<'_>,
    record: &NodeRecord,
    nesting: usize,
) -> Result<Option<Op>, GraphError> {
    let nodes = |index: usize, what: &str| {
        let graph = record.functions.get(index);
        let graph = graph.ok_or_else(|| params.malformed(format!("has no {what}")))?;
        inner_nodes(graph, nesting)
    };
    let graph = |index: usize, what: &str| Graph::function(nodes(index, what)?);
    let function = || -> Result<FlatMap, GraphError> {
        Ok(if record.functions.is_empty() {
            FlatMap::Registered(params.decode()?)
        } else {
            FlatMap::Graph(Box::new(graph(0, "function")?))
        })
    };
    if let Some(fold) = Fold::decode(params, || graph(0, "function"))? {
        return Ok(Some(Op::Fold(fold)));
    }
    if let Some(kept) = Kept::decode(params, |index| graph(index, "function"))? {
        return Ok(Some(Op::Kept(kept)));
    }
    Ok(Some(match params.op {
        "group_by_window" => Op::GroupByWindow(Box::new(Grouping {
            key: graph(0, "key")?,
            reduce: graph(1, "reduce function")?,
            size: match params.decode()? {
                Some(size) => WindowSize::Fixed(size),
                None => WindowSize::ByKey(graph(2, "window size")?),
            },
        })),
        "window" => Op::Window(Box::new(graph(0, "function")?), params.decode()?),
        "bucket_by_sequence_length" => Op::Bucket(Box::new(graph(0, "length")?), params.decode()?),
        "choose" => {
            let choices = Graph::new(nodes(0, "choices")?)?;
            Op::Choose(Box::new(choices), params.decode()?)
        }
        "flat_map" => Op::FlatMap(function()?),
        "interleave" => {
            let cycle = record.cycle.ok_or_else(|| params.malformed("has no cycle"))?;
            Op::Interleave(function()?, cycle)
        }
        _ => return Ok(None),
    }))
}

/// The parameters of a node that is being read.
pub(super) struct Parameters<'b> {
    node: usize,
    pub(super) op: &'b str,
    bytes: &'b [u8],
}

impl<'b> Parameters<'b> {
    pub(super) fn decode<T: Decode<'b, ()>>(&self) -> Result<T, GraphError> {
        minicbor::decode(self.bytes).map_err(|error| self.malformed(error))
    }

    fn malformed(&self, reason: impl Display) -> GraphError {
        GraphError::Malformed(format!(
            "parameters of operation {:?} (node {}): {reason}",
            self.op, self.node
        ))
    }
}

/// `value` as bytes.
pub(super) fn encoded<T: Encode<()>>(value: &T) -> Result<Vec<u8>, GraphError> {
    // Writing to memory cannot fail, so that only a value's own refusal is left.
    minicbor::to_vec(value).map_err(|error| GraphError::Malformed(error.to_string()))
}
