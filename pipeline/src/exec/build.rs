//! Opens a prepared graph as a tree of operations. Each operation's room decides how the operation is opened.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::graph::Graph;
use crate::ops::shuffle::Shuffle;

use super::context::Shared;
use super::cursor::{Cursor, Cut};
use super::error::ExecError;
use super::item::Item;
use super::iterate::Input;
use super::measure::Staged;
use super::order::{Order, Shuffled};
use super::program::{Opening, Program, unprepared};
use super::random::Seeds;

impl Program {
    /// Opens a new tree over `shared`. `argument` holds the arguments of a function's body. Sources of a body
    /// are read whole.
    pub(crate) fn open(&self, shared: &Shared, argument: Option<&Arc<[Item]>>) -> Result<Input, ExecError> {
        // An option set in the body of a function holds within the body. A body without the option takes the
        // option of its surroundings.
        match self
            .graph
            .deterministic()
            .filter(|said| *said != shared.deterministic)
        {
            Some(deterministic) => {
                let shared = Shared {
                    deterministic,
                    ..shared.clone()
                };
                self.open_node(self.graph.output(), &shared, argument)
            }
            None => self.open_node(self.graph.output(), shared, argument),
        }
    }

    /// Opens the operation at `node` and everything that the operation reads. The result is measured, and its
    /// failures state the operation's place in the graph.
    ///
    /// Recurses as deep as the graph; the limits of a graph keep the depth within a thread's stack.
    pub(crate) fn open_node(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        if let Some(options) = self.graph.nodes()[node].op.options() {
            // An `options` node always has an input.
            let input = self.graph.nodes()[node].inputs[0] as usize;
            let Some(on_error) = options.on_error else {
                return self.open_node(input, shared, argument);
            };
            let shared = Shared {
                on_error,
                ..shared.clone()
            };
            return self.open_node(input, &shared, argument);
        }
        let permuted = self.graph.permuted(node);
        let opening = Opening {
            program: self,
            node: permuted.map_or(node, |(source, _)| source),
            shared,
            argument,
            shuffled: permuted.map(|(_, positions)| (node, positions)),
        };
        let origin = self.graph.origin(opening.node);
        let opened = self.parts[opening.node].open(&opening).map_err(|mut error| {
            error.stand_at(origin);
            error
        })?;
        let stage = shared.meter.as_ref().and_then(|meter| meter.stage(opening.node));
        Ok(Box::new(Staged::new(opened, origin, stage)))
    }

    /// Returns the order of a source's `positions` below the full shuffle at `node`.
    fn order(&self, node: usize, positions: u64, shared: &Shared) -> Order {
        order_below(&self.graph, node, positions, |node, shuffle| {
            shared.order_seeds(self.drawn(node), shuffle.seed, shuffle.fixed)
        })
    }

    /// Returns whether the operation at `node`, or one that it reads, keeps elements for later passes.
    fn keeps(&self, node: usize) -> bool {
        let node = &self.graph.nodes()[node];
        let mut inputs = node.inputs.iter();
        node.op.keeps_elements() || inputs.any(|input| self.keeps(*input as usize))
    }
}

/// Returns the order of a source's `positions` below the full shuffle at `node`. `seeds` returns the seeds of
/// each shuffle from its node.
pub(crate) fn order_below(
    graph: &Graph,
    node: usize,
    positions: u64,
    seeds: impl Fn(usize, &Shuffle) -> Seeds,
) -> Order {
    let mut shuffles = Vec::new();
    let mut below = node;
    while let Some(shuffle) = graph.nodes()[below].op.of::<Shuffle>() {
        shuffles.push(Shuffled {
            seeds: seeds(below, shuffle),
            block: if shuffle.in_blocks {
                shuffle.buffer
            } else {
                positions
            },
        });
        // A shuffle always has an input.
        below = graph.nodes()[below].inputs[0] as usize;
    }
    Order::shuffled(positions, shuffles)
}

impl Opening<'_> {
    /// Opens the first input.
    pub(crate) fn input(&self) -> Result<Input, ExecError> {
        let input = self.inputs_of(self.node).first();
        let input = input.ok_or_else(|| unprepared(self.name()))?;
        self.program
            .open_node(*input as usize, self.shared, self.argument)
    }

    /// Opens all inputs.
    pub(crate) fn inputs(&self) -> Result<Vec<Input>, ExecError> {
        let inputs = self.inputs_of(self.node).iter();
        inputs
            .map(|input| {
                self.program
                    .open_node(*input as usize, self.shared, self.argument)
            })
            .collect()
    }

    /// Returns for each input whether it, or an operation that it reads, keeps elements for later passes.
    pub(crate) fn keeps(&self) -> Vec<bool> {
        let inputs = self.inputs_of(self.node).iter();
        inputs.map(|input| self.program.keeps(*input as usize)).collect()
    }

    /// Returns the shared context with the operation's own stage.
    pub(crate) fn own_shared(&self) -> Shared {
        self.shared.at(self.node, self.program.graph.origin(self.node))
    }

    /// Returns the node number from which the operation's random draws are derived.
    pub(crate) fn drawn(&self) -> usize {
        self.program.drawn(self.node)
    }

    /// Returns the spec of the elements of the first input.
    pub(crate) fn input_spec(&self) -> Result<&ElementSpec, ExecError> {
        let input = self.inputs_of(self.node).first();
        let input = input.map(|input| &self.program.specs[*input as usize]);
        input.ok_or_else(|| unprepared(self.name()))
    }

    /// Returns the spec of the elements that the operation yields.
    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.program.specs[self.node]
    }

    /// Returns whether the input of a batch leaves the computation of the rows to the batch.
    pub(crate) fn is_filled(&self) -> bool {
        let input = self.inputs_of(self.node).first();
        input.is_some_and(|input| self.program.graph.fills_rows(*input as usize))
    }

    /// Returns the name of the operation.
    pub(crate) fn name(&self) -> &'static str {
        self.program.graph.nodes()[self.node].op.name()
    }

    /// Returns a cursor over the `count` positions of a source, which are handed out in ranges of the
    /// source's units.
    pub(crate) fn cursor(&self, count: u64) -> Cursor {
        self.cursor_in(count, Cut::Units(self.program.graph.units(count)))
    }

    /// Returns a cursor over the `count` positions of a source, which are handed out as `cut` says.
    pub(crate) fn cursor_in(&self, count: u64, cut: Cut) -> Cursor {
        let sources = self.program.graph.sources();
        let place = sources.iter().position(|source| *source == self.node);
        // The number fits in a `u32`: a graph has at most 4096 nodes.
        Cursor::new(
            self.name(),
            count,
            self.shared,
            place.map(|place| place as u32),
            cut,
        )
    }

    /// The order in which a source is read.
    pub(crate) fn order(&self) -> Order {
        match self.shuffled {
            Some((shuffle, positions)) => self.program.order(shuffle, positions, self.shared),
            None => Order::plain(),
        }
    }

    fn inputs_of(&self, node: usize) -> &[u32] {
        &self.program.graph.nodes()[node].inputs
    }
}
