//! The fluent way to write a graph. Mistakes are kept until [`Dataset::graph`], so that chains stay chains.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::GraphError;
use super::schedule::Schedule;
use super::tree::Op;
use super::tree::{Graph, Node};

/// The number of threads that the executor chooses: see [`Dataset::parallel`].
pub const AUTO: u32 = 0;

/// Pixels an image may have unless [`Dataset::decode_image_with`] says otherwise: 64 million, 192 MB decoded.
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
    /// Spreads what was just added over threads, keeping the order.
    ///
    /// Calls of a map run on so many threads of the pool; [`AUTO`]: all of them. Neighbouring maps with the
    /// same schedule run as one call. Datasets of an `interleave` that are prefetched, each by a thread of
    /// its own; the others are read at their turn; [`AUTO`]: 16, and twice as many as long as that is faster,
    /// up to 128. As `num_parallel_calls` of tf.data.
    pub fn parallel(mut self, threads: u32) -> Dataset {
        match self.schedule() {
            Some(schedule) => schedule.parallel = threads,
            None => self.refuse("is not a map or interleave, only these run in parallel"),
        }
        self
    }

    /// Lets what was just added yield elements in whatever order they are ready, if it is
    /// [`Dataset::parallel`].
    pub fn unordered(self) -> Dataset {
        self.in_order(false)
    }

    /// Lets what was just added keep the order of its elements whatever [`Dataset::with_options`] says.
    pub fn ordered(self) -> Dataset {
        self.in_order(true)
    }

    /// Has what was just added draw alike in every pass and epoch: a `shuffle`, `random` or `sample`. With a
    /// seed also wherever it stands in a dataset, so that `take` and `skip` of one shuffled dataset have
    /// nothing in common.
    ///
    /// As `reshuffle_each_iteration=False` and `rerandomize_each_iteration=False` of tf.data.
    pub fn drawn_alike(mut self) -> Dataset {
        let draws = self
            .nodes
            .last_mut()
            .is_some_and(|node| node.op.change().fix_draws());
        if !draws {
            self.refuse("is not a shuffle, random or sample, only these draw alike in every pass");
        }
        self
    }

    /// Deals the sources out in splits of so many positions, 1 to 4096, instead of about 1024 splits a
    /// source; of files, each is a split anyway. The smallest that was asked for holds for the whole dataset.
    ///
    /// Small splits balance workers better, and less is lost with one that dies; each costs the dispatcher
    /// and the workers some microseconds, and 32 bytes in the header of every element that is made of it.
    pub fn split_size(mut self, positions: u64) -> Dataset {
        self.split_size = Some(self.split_size.map_or(positions, |size| size.min(positions)));
        self
    }

    /// The finished graph.
    ///
    /// # Errors
    /// [`GraphError`]: the first mistake in the chain.
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
        // A chain beyond 2^32 nodes is beyond memory, and refused by `graph` long before.
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

    /// The schedule of the operation just added, if it has one.
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

    /// `op` over `datasets`.
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

    /// Adds the nodes and the mistakes of `dataset`; the index that its output has then.
    pub(crate) fn append(&mut self, dataset: Dataset) -> u32 {
        // Beyond 2^32 nodes is beyond memory, and refused by `graph` long before.
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

    /// The graph of what was built on the placeholder of a function's argument, for a caller that wants to
    /// know what it yields.
    ///
    /// # Errors
    /// [`GraphError`]: the first mistake in the chain.
    pub fn function_graph(self) -> Result<Graph, GraphError> {
        self.error.map_or_else(|| Graph::function(self.nodes), Err)
    }

    pub(crate) fn failed(mut self, error: GraphError) -> Dataset {
        self.error.get_or_insert(error);
        self
    }
}

impl From<Graph> for Dataset {
    /// The dataset goes on where the graph ends.
    fn from(graph: Graph) -> Dataset {
        Dataset {
            nodes: graph.nodes().to_vec(),
            error: None,
            split_size: graph.split_size(),
        }
    }
}
