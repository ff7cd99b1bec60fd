//! The builder of graphs. A mistake in a chain of methods is kept, and reported by [`Dataset::graph`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::GraphError;
use super::schedule::Schedule;
use super::tree::Op;
use super::tree::{Graph, Node};

/// The value that lets the executor choose the number of threads: see [`Dataset::parallel`].
pub const AUTO: u32 = 0;

/// The default limit on the pixels of an image, which [`Dataset::decode_image_with`] can change: 64 million
/// pixels, 192 MB decoded.
pub const PIXELS_MAX_DEFAULT: u64 = 1 << 26;

/// A dataset under construction: a chain of operations, the last of which is the output.
#[derive(Debug, Clone)]
#[must_use = "a dataset does nothing until its graph is registered or executed"]
pub struct Dataset {
    pub(crate) nodes: Vec<Node>,
    pub(crate) error: Option<GraphError>,
    pub(crate) split_size: Option<u64>,
}

impl Dataset {
    /// Spreads the last operation over threads, and keeps the order of its elements.
    ///
    /// The calls of a map run on `threads` threads of the pool, or on all of them for [`AUTO`]. Neighbouring
    /// maps with the same schedule run as one call.
    ///
    /// An `interleave` prefetches `threads` of its datasets, each in its own thread, and reads the other
    /// datasets at their turn. With [`AUTO`] the number begins at 16, and doubles up to 128 as long as the
    /// pipeline becomes faster.
    ///
    /// Works as `num_parallel_calls` of tf.data.
    pub fn parallel(mut self, threads: u32) -> Dataset {
        match self.schedule() {
            Some(schedule) => schedule.parallel = threads,
            None => self.refuse("cannot run in parallel, only a map or interleave can"),
        }
        self
    }

    /// Lets the last operation yield elements in the order in which they become ready, if the operation runs
    /// in parallel ([`Dataset::parallel`]).
    pub fn unordered(self) -> Dataset {
        self.in_order(false)
    }

    /// Lets the last operation keep the order of its elements, even if [`Dataset::with_options`] says
    /// otherwise.
    pub fn ordered(self) -> Dataset {
        self.in_order(true)
    }

    /// Lets the last operation, a `shuffle`, `random` or `sample`, make the same draws in every pass and
    /// epoch.
    ///
    /// With a seed, the draws are also independent of the operation's place in the dataset. For example,
    /// `take` and `skip` of the same shuffled dataset yield disjoint elements.
    ///
    /// Works as `reshuffle_each_iteration=False` and `rerandomize_each_iteration=False` of tf.data.
    pub fn drawn_alike(mut self) -> Dataset {
        let draws = self
            .nodes
            .last_mut()
            .is_some_and(|node| node.op.change().fix_draws());
        if !draws {
            self.refuse("cannot repeat its draws, only a shuffle, random or sample can");
        }
        self
    }

    /// Divides the sources into splits of `positions` positions, 1 to 4096. The default is about 1024 splits
    /// for each source. Sources of files are divided into files instead. If a dataset sets several sizes, the
    /// smallest counts.
    ///
    /// Small splits balance workers better, and a worker that dies loses less work. Each split costs the
    /// dispatcher and the workers a few microseconds, and 32 bytes in the header of every element made from
    /// the split.
    pub fn split_size(mut self, positions: u64) -> Dataset {
        self.split_size = Some(self.split_size.map_or(positions, |size| size.min(positions)));
        self
    }

    /// Returns the finished graph.
    ///
    /// # Errors
    /// [`GraphError`] that describes the first mistake in the chain.
    pub fn graph(self) -> Result<Graph, GraphError> {
        match self.error {
            Some(error) => Err(error),
            None => match self.split_size {
                Some(positions) => Graph::new(self.nodes)?.with_split_size(positions),
                None => Graph::new(self.nodes),
            },
        }
    }

    pub(crate) fn source(op: impl Into<Op>) -> Dataset {
        Dataset {
            nodes: vec![Node {
                op: op.into(),
                inputs: Vec::new(),
            }],
            error: None,
            split_size: None,
        }
    }

    pub(crate) fn then(mut self, op: impl Into<Op>) -> Dataset {
        // A chain of 2^32 nodes does not fit into memory, and `graph` refuses shorter chains than that.
        let input = (self.nodes.len() - 1) as u32;
        self.nodes.push(Node {
            op: op.into(),
            inputs: vec![input],
        });
        self
    }

    fn in_order(mut self, ordered: bool) -> Dataset {
        match self.schedule() {
            Some(schedule) => schedule.ordered = Some(ordered),
            None => self.refuse("is not a map or interleave, only these can be unordered"),
        }
        self
    }

    /// Returns the schedule of the last operation, if the operation has a schedule.
    fn schedule(&mut self) -> Option<&mut Schedule> {
        self.nodes.last_mut()?.op.change().schedule_mut()
    }

    fn refuse(&mut self, reason: &str) {
        let node = self.nodes.len() - 1;
        let op = self.nodes[node].op.name();
        self.error.get_or_insert(GraphError::Invalid {
            node,
            op,
            reason: reason.to_owned(),
        });
    }

    /// Combines `datasets` by the operation `op`.
    pub(crate) fn joined(op: impl Into<Op>, datasets: impl IntoIterator<Item = Dataset>) -> Dataset {
        let mut joined = Dataset {
            nodes: Vec::new(),
            error: None,
            split_size: None,
        };
        let inputs = datasets
            .into_iter()
            .map(|dataset| joined.append(dataset))
            .collect();
        joined.nodes.push(Node {
            op: op.into(),
            inputs,
        });
        joined
    }

    /// Adds the nodes and the first mistake of `dataset`, and returns the new index of its output.
    pub(crate) fn append(&mut self, dataset: Dataset) -> u32 {
        // A chain of 2^32 nodes does not fit into memory, and `graph` refuses shorter chains than that.
        let offset = self.nodes.len() as u32;
        for mut node in dataset.nodes {
            node.inputs.iter_mut().for_each(|input| *input += offset);
            self.nodes.push(node);
        }
        if let Some(error) = dataset.error {
            self.error.get_or_insert(error);
        }
        self.split_size = self.split_size.into_iter().chain(dataset.split_size).min();
        (self.nodes.len() as u32).saturating_sub(1)
    }

    /// Returns the graph of a function, whose chain begins at the placeholder of the function's argument. The
    /// caller uses the graph to infer the function's results.
    ///
    /// # Errors
    /// [`GraphError`] that describes the first mistake in the chain.
    pub fn function_graph(self) -> Result<Graph, GraphError> {
        self.error.map_or_else(|| Graph::function(self.nodes), Err)
    }

    pub(crate) fn failed(mut self, error: GraphError) -> Dataset {
        self.error.get_or_insert(error);
        self
    }
}

impl From<Graph> for Dataset {
    /// Continues the chain of operations after the output of `graph`.
    fn from(graph: Graph) -> Dataset {
        Dataset {
            nodes: graph.nodes().to_vec(),
            error: None,
            split_size: graph.split_size(),
        }
    }
}
