//! The graph of a dataset: nodes in topological order, the last of which is the output. A graph that exists
//! is valid: inputs precede their users, every node feeds exactly one other, and the limits below hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::GraphError;
use super::function::Function;
use super::op::{FlatMap, Op};

/// Nodes of a graph, sub-graphs included.
pub const NODES_MAX: usize = 4096;
/// Operations one behind the other from the output to a source, sub-graphs included: execution recurses this
/// deep.
pub const DEPTH_MAX: usize = 256;
/// Sub-graphs within sub-graphs.
pub const NESTING_MAX: usize = 8;
/// Bytes of an encoded graph.
pub const GRAPH_BYTES_MAX: usize = 16 << 20;
/// Bytes of a name: of a function, a component, a field, a pattern.
pub const NAME_BYTES_MAX: usize = 4096;
/// Elements that `shuffle`, `batch` and `prefetch` may hold.
pub const BUFFER_MAX: u64 = 1 << 24;

/// Datasets that an `interleave` may have open at once: each holds at least a file, as a rule.
pub const CYCLE_MAX: u64 = 4096;

/// One operation and the nodes it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Indices of the nodes it reads, each below its own.
    pub inputs: Vec<u32>,
}

/// A dataset's definition. Made by [`super::Dataset`] or [`Graph::from_bytes`].
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Checks `nodes`, whose last is the output, and makes a graph of them.
    ///
    /// # Errors
    /// [`GraphError`] naming the node and the rule it breaks.
    pub fn new(nodes: Vec<Node>) -> Result<Graph, GraphError> {
        let graph = Graph { nodes };
        graph.check(Role::Dataset)?;
        Ok(graph)
    }

    /// Checks `nodes` as the body of a function: sources may be the function's argument.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn function(nodes: Vec<Node>) -> Result<Graph, GraphError> {
        let graph = Graph { nodes };
        graph.check(Role::Function)?;
        Ok(graph)
    }

    /// The nodes, inputs before their users.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of the output.
    pub fn output(&self) -> usize {
        // A graph has at least one node.
        self.nodes.len() - 1
    }

    /// The indices of the sources, depth first from the output, inputs in order. This numbering is the
    /// `source` of a split. Sources inside functions are not counted: each call reads them whole.
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

    /// This graph with nodes that differ from its own in their declarations only, so that they need no check.
    pub(super) fn with_ops(&self, nodes: Vec<Node>) -> Graph {
        debug_assert_eq!(nodes.len(), self.nodes.len());
        Graph { nodes }
    }

    fn check(&self, role: Role) -> Result<(), GraphError> {
        let mut budget = NODES_MAX;
        self.check_within(role, &mut budget, 0)?;
        Ok(())
    }

    /// The depth of the graph, having checked it.
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
            if matches!(node.op, Op::Argument) && role == Role::Dataset {
                return Err(invalid(
                    "stands for a function's argument, and this is no function".to_owned(),
                ));
            }
            check_params(&node.op, node.inputs.len()).map_err(invalid)?;
            for input in &node.inputs {
                let input = *input as usize;
                if input >= index {
                    return Err(invalid(format!("reads node {input}, which does not precede it")));
                }
                users[input] += 1;
                depths[index] = depths[index].max(depths[input]);
            }
            let inner = node.op.inner();
            let role = if let Op::Choose(..) = &node.op {
                Role::Dataset
            } else {
                Role::Function
            };
            let inner = inner.map(|inner| inner.check_within(role, budget, nesting + 1));
            depths[index] += 1 + inner.transpose()?.unwrap_or(0);
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
                let reason = format!("feeds {users} operations instead of {expected}");
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Dataset,
    Function,
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
    Err(format!("has {inputs} inputs, takes {}{more}", arity.start()))
}

/// The rules that parameters obey by themselves, given how many inputs there are; what depends on the spec of those is
/// checked by the analysis.
fn check_params(op: &Op, inputs: usize) -> Result<(), String> {
    match op {
        Op::Range(range) if range.step == 0 => Err("step is 0".to_owned()),
        Op::Range(_)
        | Op::Argument
        | Op::TextLines
        | Op::Unbatch
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Enumerate(_)
        | Op::Concatenate
        | Op::Choose(..) => Ok(()),
        Op::Sample(sample) => check_weights(&sample.weights, inputs),
        Op::TensorSlices(slices) => slices.constant.slices().map(|_| ()),
        Op::Files(files) => check_name("pattern", &files.pattern),
        Op::Source(source) => check_name("source", &source.name),
        Op::Service(_) => Ok(()),
        Op::Map(function, schedule) => {
            if u64::from(schedule.parallel) > 4096 {
                return Err(format!("{} parallel calls, the limit is 4096", schedule.parallel));
            }
            check_function(function)
        }
        Op::Filter(filter) => check_name("function", &filter.function),
        Op::WebDataset(webdataset) => {
            if webdataset.fields.is_empty() {
                return Err("names no fields, such as \"jpg\"".to_owned());
            }
            for (index, field) in webdataset.fields.iter().enumerate() {
                check_name("field", field)?;
                if webdataset.fields[..index].contains(field) {
                    return Err(format!("names the field {field:?} twice"));
                }
            }
            Ok(())
        }
        Op::Batch(batch) => check_buffer("batch size", batch.size),
        Op::Shuffle(shuffle) => check_buffer("shuffle buffer", shuffle.buffer),
        Op::Shard(shard) => match shard.count {
            Some(count) if shard.index >= count => Err(format!(
                "takes shard {} of {count}: shards are numbered from 0",
                shard.index
            )),
            Some(_) | None => Ok(()),
        },
        Op::Prefetch(prefetch) => check_buffer("prefetch buffer", prefetch.buffer),
        Op::FlatMap(function) => check_flat_map(function),
        Op::Interleave(function, cycle) => {
            if cycle.length == 0 || cycle.length > CYCLE_MAX {
                return Err(format!(
                    "cycle of {} datasets is not within 1..={CYCLE_MAX}",
                    cycle.length
                ));
            }
            if cycle.block == 0 {
                return Err("takes blocks of no elements by turns; the least is 1".to_owned());
            }
            check_flat_map(function)
        }
        Op::Zip(zip) => match &zip.names {
            Some(names) if names.len() != inputs => {
                Err(format!("has {} names for {inputs} inputs", names.len()))
            }
            Some(names) => names.iter().try_for_each(|name| check_name("name", name)),
            None => Ok(()),
        },
    }
}

fn check_weights(weights: &[f64], inputs: usize) -> Result<(), String> {
    if weights.len() != inputs {
        return Err(format!("has {} weights for {inputs} inputs", weights.len()));
    }
    match weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight > 0.0))
    {
        Some(weight) => Err(format!(
            "has the weight {weight}, which is not a finite number above 0"
        )),
        // Each is finite, their sum need not be.
        None if !weights.iter().sum::<f64>().is_finite() => {
            Err("has weights without a finite sum".to_owned())
        }
        None => Ok(()),
    }
}

fn check_flat_map(function: &FlatMap) -> Result<(), String> {
    match function {
        FlatMap::Graph(_) => Ok(()),
        FlatMap::Registered(registered) => check_name("function", &registered.name),
    }
}

fn check_function(function: &Function) -> Result<(), String> {
    match function {
        Function::Registered(registered) => check_name("function", &registered.name),
        Function::DecodeImage(decode) if decode.pixels_max == 0 => Err("allows no pixels".to_owned()),
        Function::DecodeImage(_) | Function::ParseInt(_) => Ok(()),
        Function::Resize(resize) => check_image_size(resize.height, resize.width),
        Function::RandomResizedCrop(crop) => {
            check_image_size(crop.height, crop.width)?;
            let scale = crop.scale_min > 0.0 && crop.scale_min <= crop.scale_max && crop.scale_max <= 1.0;
            if !scale {
                return Err(format!(
                    "scale {}..{} is not within 0..1",
                    crop.scale_min, crop.scale_max
                ));
            }
            let ratio =
                crop.ratio_min > 0.0 && crop.ratio_min <= crop.ratio_max && crop.ratio_max.is_finite();
            if !ratio {
                return Err(format!(
                    "ratio {}..{} is not a positive range",
                    crop.ratio_min, crop.ratio_max
                ));
            }
            Ok(())
        }
        Function::Select(select) if select.components.is_empty() => Err("selects nothing".to_owned()),
        Function::Select(select) => select
            .components
            .iter()
            .try_for_each(|selected| check_name("component", &selected.name)),
    }
}

fn check_image_size(height: u32, width: u32) -> Result<(), String> {
    const SIDE_MAX: u32 = 1 << 16;
    if height == 0 || width == 0 || height > SIDE_MAX || width > SIDE_MAX {
        return Err(format!(
            "size {height} x {width} is not within 1..={SIDE_MAX} pixels a side"
        ));
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "{what} has {} bytes, the limit is {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    Ok(())
}

fn check_buffer(what: &str, size: u64) -> Result<(), String> {
    if size == 0 || size > BUFFER_MAX {
        return Err(format!("{what} of {size} is not within 1..={BUFFER_MAX}"));
    }
    Ok(())
}
