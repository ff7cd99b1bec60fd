//! Static sharding: a dataset rewritten into one worker's share of it, so that the shares of all workers
//! together are the whole. Where the shard stands is decided here; what a shard yields is the operation's.
//!
//! What stands below a shard must come in one order on every worker, or the shares would overlap: below it
//! calls keep their order, and draws without a seed are drawn alike.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use thiserror::Error;

use crate::graph::error::GraphError;
use crate::graph::limits::BUFFER_MAX;
use crate::graph::tree::Op;
use crate::graph::tree::{Graph, Node};
use crate::ops::assert_cardinality::AssertCardinality;
use crate::ops::files::Files;
use crate::ops::prefetch::Prefetch;
use crate::ops::service::ServiceReader;
use crate::ops::shuffle::Shuffle;

use super::definition::Shard;

/// The place at which a dataset is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardBy {
    /// In front of what reads the files: each worker has files of its own.
    Files,
    /// At the end: each worker computes everything and keeps its elements.
    Elements,
    /// By files, and by elements where a source is no file.
    FilesOrElements,
    /// The place of [`crate::graph::Dataset::shard_hint`]; without one every worker has all of the dataset.
    Hint,
}

/// The share of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of shares.
    pub count: u64,
    /// The number of this share, from 0.
    pub index: u64,
    /// The seed of what is drawn below the shard and has none: a number that all workers of an iteration
    /// know.
    pub seed: u64,
}

/// Why a dataset cannot be divided.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShardingError {
    /// The number of the share is wrong, by a fault of the program that numbered the workers.
    #[error("there is no worker {index} of {count}: workers are numbered from 0")]
    NoSuchShare {
        /// The number.
        index: u64,
        /// The number of shares.
        count: u64,
    },
    /// The source is no file.
    #[error(
        "the dataset cannot be divided by files: its source {source_name:?} has none; use the sharding policy `data`, \
         `file_or_data` or `dynamic`"
    )]
    NoFiles {
        /// The source.
        source_name: String,
    },
    /// The elements of a source come in another order on every worker.
    #[error(
        "the dataset cannot be divided: its source {source_name:?} yields its elements to every worker in another order"
    )]
    NoOrder {
        /// The source.
        source_name: String,
    },
    /// The graph with the shards is larger than a graph may be.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// The dataset that one worker reads when this one is divided.
    ///
    /// One share is the whole dataset, divided by files or by elements. Shards that are added, and hints,
    /// demand an element for every worker.
    ///
    /// # Errors
    /// [`ShardingError`] names the source that cannot be divided; [`ShardingError::NoFiles`] only under
    /// [`ShardBy::Files`].
    pub fn sharded(&self, by: ShardBy, share: Share) -> Result<Graph, ShardingError> {
        if share.index >= share.count {
            return Err(ShardingError::NoSuchShare {
                index: share.index,
                count: share.count,
            });
        }
        let rewrite = match by {
            ShardBy::Files | ShardBy::Elements | ShardBy::FilesOrElements if share.count == 1 => {
                return Ok(self.clone());
            }
            ShardBy::Files => Rewrite::new(self, share).at_files(self.file_cuts()?),
            ShardBy::Elements => Rewrite::new(self, share).at_end(),
            ShardBy::FilesOrElements => match self.file_cuts() {
                Ok(cuts) => Rewrite::new(self, share).at_files(cuts),
                Err(ShardingError::NoFiles { .. }) => Rewrite::new(self, share).at_end(),
                Err(error) => return Err(error),
            },
            ShardBy::Hint => Rewrite::new(self, share).at_hints(),
        };
        rewrite.finish()
    }

    /// Returns whether it has a [`crate::graph::Dataset::shard_hint`], in a function or outside, and so can
    /// be read under the policy `hint` only.
    pub fn has_shard_hint(&self) -> bool {
        let mut ops = self.nodes().iter().map(|node| &node.op);
        ops.any(|op| is_hint(op) || op.graphs().iter().any(|(graph, _)| graph.has_shard_hint()))
    }

    /// The nodes behind which a shard divides the files, one on every branch: the input of the reader that is
    /// closest to the output, else the listing itself.
    fn file_cuts(&self) -> Result<BTreeSet<usize>, ShardingError> {
        let mut cuts = BTreeSet::new();
        let mut open = vec![self.output()];
        while let Some(index) = open.pop() {
            let node = &self.nodes()[index];
            let inputs = node.inputs.iter().map(|input| *input as usize);
            if node.op.reads_files() {
                cuts.extend(inputs);
            } else if node.op.is::<Files>() {
                cuts.insert(index);
            } else if node.inputs.is_empty() {
                return Err(ShardingError::NoFiles {
                    source_name: node.op.source_name(),
                });
            } else {
                open.extend(inputs);
            }
        }
        Ok(cuts)
    }
}

/// A graph being copied, with shards.
struct Rewrite<'g> {
    graph: &'g Graph,
    share: Share,
    /// Nodes that a shard is put behind.
    cuts: BTreeSet<usize>,
    /// Whether shuffles of what is divided are put behind the shard.
    moves_shuffles: bool,
    /// Whether hints are given their numbers.
    fills_hints: bool,
    nodes: Vec<Node>,
}

impl<'g> Rewrite<'g> {
    fn new(graph: &'g Graph, share: Share) -> Rewrite<'g> {
        Rewrite {
            graph,
            share,
            cuts: BTreeSet::new(),
            moves_shuffles: false,
            fills_hints: false,
            nodes: Vec::with_capacity(graph.nodes().len() + 2),
        }
    }

    fn at_files(mut self, cuts: BTreeSet<usize>) -> Rewrite<'g> {
        self.cuts = cuts;
        self.moves_shuffles = true;
        self
    }

    /// In front of the prefetches and options at the end, so that buffers hold what is kept.
    fn at_end(mut self) -> Rewrite<'g> {
        let mut last = self.graph.output();
        let nodes = self.graph.nodes();
        let is_passed = |node: &Node| node.op.is::<Prefetch>() || node.op.options().is_some();
        while is_passed(&nodes[last])
            && let [input] = nodes[last].inputs[..]
        {
            last = input as usize;
        }
        self.cuts.insert(last);
        self
    }

    fn at_hints(mut self) -> Rewrite<'g> {
        self.fills_hints = true;
        self
    }

    fn finish(mut self) -> Result<Graph, ShardingError> {
        self.above(self.graph.output())?;
        Ok(Graph::new(self.nodes)?)
    }

    /// Copies what stands above all shards. Recurses as deep as a graph may be.
    fn above(&mut self, index: usize) -> Result<u32, ShardingError> {
        if self.cuts.contains(&index) {
            return self.cut(index);
        }
        let Node { op, inputs } = &self.graph.nodes()[index];
        if op.is::<AssertCardinality>()
            && let &[input] = &inputs[..]
            && self.divides(input as usize)
        {
            // What is said of the whole says nothing of a share.
            return self.above(input as usize);
        }
        let is_shard = self.fills_hints && is_hint(op);
        let mut copied = Vec::with_capacity(inputs.len());
        for input in inputs {
            copied.push(if is_shard {
                self.below(*input as usize, None)?
            } else {
                self.above(*input as usize)?
            });
        }
        let mut op = self.filled(op, true);
        if op.keeps_elements() && self.divides(index) {
            op.change().take_share(self.share.index, self.share.count);
        }
        Ok(self.push(op, copied))
    }

    /// Returns whether a shard stands at the node or below it.
    fn divides(&self, index: usize) -> bool {
        let Node { op, inputs } = &self.graph.nodes()[index];
        let is_shard = self.cuts.contains(&index) || (self.fills_hints && is_hint(op));
        is_shard || inputs.iter().any(|input| self.divides(*input as usize))
    }

    /// Copies a node that is divided, and puts the shard and what was moved behind it.
    fn cut(&mut self, index: usize) -> Result<u32, ShardingError> {
        let mut moved = Vec::new();
        let below = self.below(index, self.moves_shuffles.then_some(&mut moved))?;
        let shard = self.shard(true);
        let mut last = self.push(shard.into(), vec![below]);
        for shuffle in moved {
            last = self.push(shuffle.into(), vec![last]);
        }
        Ok(last)
    }

    /// Copies what stands below a shard. Shuffles from which only operations that do not look at the order
    /// lead there are moved, innermost first: so each worker has the same files in every iteration.
    fn below(&mut self, index: usize, mut moved: Option<&mut Vec<Shuffle>>) -> Result<u32, ShardingError> {
        let Node { op, inputs } = &self.graph.nodes()[index];
        if op.is::<ServiceReader>() {
            return Err(ShardingError::NoOrder {
                source_name: op.source_name(),
            });
        }
        let mut copied = Vec::with_capacity(inputs.len());
        for input in inputs {
            let moved = moved.as_deref_mut().filter(|_| op.ignores_order());
            copied.push(self.below(*input as usize, moved)?);
        }
        let op = match moved {
            Some(moved) => {
                if let Some(shuffle) = op.of::<Shuffle>() {
                    moved.push(*shuffle);
                    // A shuffle has one input.
                    return Ok(copied[0]);
                }
                match op.of::<Files>().filter(|files| files.shuffle) {
                    Some(files) => {
                        moved.push(Shuffle {
                            buffer: BUFFER_MAX,
                            seed: files.seed,
                            fixed: false,
                        });
                        Op::new(Files {
                            shuffle: false,
                            ..files.clone()
                        })
                    }
                    None => drawn_alike(self.filled(op, true), self.share.seed),
                }
            }
            None => drawn_alike(self.filled(op, true), self.share.seed),
        };
        Ok(self.push(op, copied))
    }

    /// The operation with numbers in its hints, where they are wanted. In a function they demand nothing: how
    /// many elements one call has says nothing of the dataset.
    fn filled(&self, op: &Op, is_outside: bool) -> Op {
        if !self.fills_hints {
            op.clone()
        } else if is_hint(op) {
            Op::new(self.shard(is_outside))
        } else {
            with_body(op.clone(), |op| self.filled(op, false))
        }
    }

    fn shard(&self, require_non_empty: bool) -> Shard {
        Shard {
            count: Some(self.share.count),
            index: self.share.index,
            require_non_empty,
        }
    }

    fn push(&mut self, op: Op, inputs: Vec<u32>) -> u32 {
        self.nodes.push(Node { op, inputs });
        // A graph has at most 4096 nodes, and at most one shard and one more shuffle for each.
        (self.nodes.len() - 1) as u32
    }
}

/// The operation such that all workers yield the same in the same order.
fn drawn_alike(mut op: Op, seed: u64) -> Op {
    op.change().draw_alike(seed);
    with_body(op, |op| drawn_alike(op.clone(), seed))
}

/// The operation with every operation in its function's dataset changed.
fn with_body(mut op: Op, change: impl Fn(&Op) -> Op) -> Op {
    for body in op.change().graphs_mut() {
        let nodes = body.nodes().iter().map(|node| Node {
            op: change(&node.op),
            inputs: node.inputs.clone(),
        });
        *body = body.with_ops(nodes.collect());
    }
    op
}

fn is_hint(op: &Op) -> bool {
    op.of::<Shard>().is_some_and(|shard| shard.count.is_none())
}
