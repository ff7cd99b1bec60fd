//! Static sharding: rewrites a dataset into the share of one worker, so that the shares of all workers
//! together are the whole dataset. This module decides the place of the shard operation in the graph.
//!
//! All workers must read the input of a shard in the same order, or the shares would overlap. So below
//! a shard, parallel calls keep their order, and draws without a seed use a common seed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use thiserror::Error;

use crate::graph::error::GraphError;
use crate::graph::limits::BUFFER_MAX;
use crate::graph::tree::Op;
use crate::graph::tree::{Graph, Node};
use crate::ops::assert_cardinality::AssertCardinality;
use crate::ops::batch::Batch;
use crate::ops::files::Files;
use crate::ops::prefetch::Prefetch;
use crate::ops::service::ServiceReader;
use crate::ops::shuffle::Shuffle;
use crate::ops::unbatch::Unbatch;

use super::definition::Shard;

/// The place in the graph at which a dataset is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardBy {
    /// Divides the files before they are read, so that each worker reads files of its own.
    Files,
    /// Divides the elements at the end: each worker computes all elements and keeps its share.
    Elements,
    /// Divides the files, or the elements if a source has no files.
    FilesOrElements,
    /// Divides at the place of [`crate::graph::Dataset::shard_hint`]. Without a hint, every worker
    /// reads the whole dataset.
    Hint,
    /// Divides the files, or the positions of the sources in ranges of this length. Shares may be empty.
    /// They form the whole dataset if it is alike on splits: see [`Graph::is_alike_on_splits`].
    Splits(u64),
}

/// The share of one worker in a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of shares.
    pub count: u64,
    /// The number of this share, from 0.
    pub index: u64,
    /// The seed for operations below the shard that have no seed. All workers of an iteration use the
    /// same number.
    pub seed: u64,
}

/// The reason why a dataset cannot be divided.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShardingError {
    /// The number of the share is invalid, by a defect of the program that numbered the workers.
    #[error("there is no worker {index} of {count}: workers are numbered from 0")]
    NoSuchShare {
        /// The number of the share.
        index: u64,
        /// The number of shares.
        count: u64,
    },
    /// The source has no files.
    #[error(
        "the dataset cannot be divided by files: its source {source_name:?} has none; use the sharding policy `data`, \
         `file_or_data` or `dynamic`"
    )]
    NoFiles {
        /// The name of the source.
        source_name: String,
    },
    /// The source yields its elements in a different order to each worker.
    #[error(
        "the dataset cannot be divided: its source {source_name:?} yields its elements in a different order to each worker"
    )]
    NoOrder {
        /// The name of the source.
        source_name: String,
    },
    /// The graph with the added shards exceeds the limits of a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// Returns the dataset that one worker reads when this dataset is divided.
    ///
    /// If the share is the only one, only a division by hints changes the dataset. Added shards and filled
    /// hints require at least one element per worker, except under [`ShardBy::Splits`].
    ///
    /// # Errors
    /// [`ShardingError`] names the source that cannot be divided. [`ShardingError::NoFiles`] occurs
    /// only under [`ShardBy::Files`].
    pub fn sharded(&self, by: ShardBy, share: Share) -> Result<Graph, ShardingError> {
        if share.index >= share.count {
            return Err(ShardingError::NoSuchShare {
                index: share.index,
                count: share.count,
            });
        }
        let rewrite = match by {
            ShardBy::Files | ShardBy::Elements | ShardBy::FilesOrElements | ShardBy::Splits(_)
                if share.count == 1 =>
            {
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
            ShardBy::Splits(positions) => match self.file_cuts() {
                Ok(cuts) => Rewrite::new(self, share).may_be_empty().at_files(cuts),
                Err(ShardingError::NoFiles { .. }) => {
                    Rewrite::new(self, share).may_be_empty().at_sources(positions)
                }
                Err(error) => return Err(error),
            },
        };
        rewrite.finish()
    }

    /// Returns whether the graph or one of its functions has a [`crate::graph::Dataset::shard_hint`].
    /// Such a dataset can be read under the policy `hint` only.
    pub fn has_shard_hint(&self) -> bool {
        let mut ops = self.nodes().iter().map(|node| &node.op);
        ops.any(|op| is_hint(op) || op.graphs().iter().any(|(graph, _)| graph.has_shard_hint()))
    }

    /// Returns the nodes whose output a shard divides by files, one on every branch. The node is the
    /// input of the reader that is closest to the output, or the `files` operation if no reader exists.
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

/// A graph that is being copied, with shards added.
struct Rewrite<'g> {
    graph: &'g Graph,
    share: Share,
    /// The nodes after which a shard is inserted.
    cuts: BTreeSet<usize>,
    /// Whether shuffles of the divided files move after the shard.
    moves_shuffles: bool,
    /// Whether hints receive the numbers of the share.
    fills_hints: bool,
    /// Whether an added shard requires at least one element per worker.
    requires_elements: bool,
    /// The number of consecutive elements that stay together at an added shard.
    together: u64,
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
            requires_elements: true,
            together: 1,
            nodes: Vec::with_capacity(graph.nodes().len() + 2),
        }
    }

    fn at_files(mut self, cuts: BTreeSet<usize>) -> Rewrite<'g> {
        self.cuts = cuts;
        self.moves_shuffles = true;
        self
    }

    /// Inserts the shard before the prefetches and options at the end, so that buffers hold only the
    /// share.
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

    /// Inserts a shard after each source, which keeps ranges of this many positions together.
    fn at_sources(mut self, positions: u64) -> Rewrite<'g> {
        self.cuts = self.graph.sources().into_iter().collect();
        self.together = positions;
        self
    }

    fn may_be_empty(mut self) -> Rewrite<'g> {
        self.requires_elements = false;
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

    /// Copies the node `index`, which is above all shards, and its inputs. Recurses at most as deep as
    /// a graph may be.
    fn above(&mut self, index: usize) -> Result<u32, ShardingError> {
        if self.cuts.contains(&index) {
            return self.cut(index);
        }
        let Node { op, inputs } = &self.graph.nodes()[index];
        if op.is::<AssertCardinality>()
            && let &[input] = &inputs[..]
            && self.divides(input as usize)
        {
            // A stated number of elements of the whole dataset does not hold for a share.
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

    /// Returns whether a shard is inserted at the node or below it.
    fn divides(&self, index: usize) -> bool {
        let Node { op, inputs } = &self.graph.nodes()[index];
        let is_shard = self.cuts.contains(&index) || (self.fills_hints && is_hint(op));
        is_shard || inputs.iter().any(|input| self.divides(*input as usize))
    }

    /// Copies a node that is divided, and inserts the shard and the moved shuffles after it.
    fn cut(&mut self, index: usize) -> Result<u32, ShardingError> {
        let mut moved = Vec::new();
        let below = self.below(index, self.moves_shuffles.then_some(&mut moved))?;
        let shard = Op::new(self.shard(self.requires_elements));
        let mut last = if self.together > 1 {
            let ranges = Batch {
                size: self.together,
                drop_remainder: false,
            };
            let ranges = self.push(Op::new(ranges), vec![below]);
            let share = self.push(shard, vec![ranges]);
            self.push(Op::new(Unbatch), vec![share])
        } else {
            self.push(shard, vec![below])
        };
        for shuffle in moved {
            last = self.push(shuffle.into(), vec![last]);
        }
        Ok(last)
    }

    /// Copies a node below a shard. Moves shuffles of files to the other side of the shard, if only
    /// operations that ignore the order follow the shuffle. So each worker reads the same files in
    /// every iteration. `moved` receives the shuffles, the innermost first.
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
                    // A shuffle always has one input.
                    return Ok(copied[0]);
                }
                match op.of::<Files>().filter(|files| files.shuffle) {
                    Some(files) => {
                        moved.push(Shuffle {
                            buffer: BUFFER_MAX,
                            seed: files.seed,
                            fixed: false,
                            in_blocks: false,
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

    /// Returns the operation with the numbers of the share in its hints, if hints are filled. A hint
    /// within a function does not require elements, because one call may have few elements.
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
        // The number of nodes fits: a graph has at most 4096 nodes, and each gets at most a shard, a batch,
        // an unbatch and a shuffle.
        (self.nodes.len() - 1) as u32
    }
}

/// Returns the graph with every operation changed so that all workers yield the same elements in the same
/// order. Operations without a seed draw with `seed`.
pub(crate) fn draw_all_alike(graph: &Graph, seed: u64) -> Graph {
    let nodes = graph.nodes().iter().map(|node| Node {
        op: drawn_alike(node.op.clone(), seed),
        inputs: node.inputs.clone(),
    });
    graph.with_ops(nodes.collect())
}

/// Changes the operation so that all workers yield the same elements in the same order.
fn drawn_alike(mut op: Op, seed: u64) -> Op {
    op.change().draw_alike(seed);
    with_body(op, |op| drawn_alike(op.clone(), seed))
}

/// Applies `change` to every operation in the functions of `op`.
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
