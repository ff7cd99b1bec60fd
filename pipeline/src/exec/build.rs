//! Opens a prepared graph as a tree of operations. What one operation is opened as, its room says.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::ops::shuffle::Shuffle;

use super::context::Shared;
use super::cursor::{Cursor, Cut};
use super::error::ExecError;
use super::item::Item;
use super::iterate::Input;
use super::measure::Staged;
use super::order::Order;
use super::program::{Opening, Program, unprepared};

impl Program {
    /// A new tree over `shared`. `argument` is what a function's body is called with; sources of a
    /// body are read whole.
    pub(crate) fn open(&self, shared: &Shared, argument: Option<&Arc<[Item]>>) -> Result<Input, ExecError> {
        // What the body of a function says holds within it; where it says nothing, what surrounds it does.
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

    /// The operation at `node` and all that it reads, where they stand, measured, and with its failures
    /// placed.
    ///
    /// Recurses as deep as a graph may be, which its limits keep within a thread's stack.
    pub(crate) fn open_node(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        if let Some(options) = self.graph.nodes()[node].op.options() {
            // A graph's options have an input.
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

    /// The order of a source's `positions` below the full shuffle at `node`.
    fn order(&self, node: usize, positions: u64, shared: &Shared) -> Order {
        let mut shuffles = Vec::new();
        let mut below = node;
        while let Some(shuffle) = self.graph.nodes()[below].op.of::<Shuffle>() {
            shuffles.push(shared.order_seeds(self.drawn(below), shuffle.seed, shuffle.fixed));
            // A shuffle has an input.
            below = self.graph.nodes()[below].inputs[0] as usize;
        }
        Order::shuffled(positions, shuffles)
    }

    /// Returns whether the operation at `node`, or one that it reads, keeps elements for later passes.
    fn keeps(&self, node: usize) -> bool {
        let node = &self.graph.nodes()[node];
        let mut inputs = node.inputs.iter();
        node.op.keeps_elements() || inputs.any(|input| self.keeps(*input as usize))
    }
}

impl Opening<'_> {
    /// The first input, opened.
    pub(crate) fn input(&self) -> Result<Input, ExecError> {
        let input = self.inputs_of(self.node).first();
        let input = input.ok_or_else(|| unprepared(self.name()))?;
        self.program
            .open_node(*input as usize, self.shared, self.argument)
    }

    /// All inputs, opened.
    pub(crate) fn inputs(&self) -> Result<Vec<Input>, ExecError> {
        let inputs = self.inputs_of(self.node).iter();
        inputs
            .map(|input| {
                self.program
                    .open_node(*input as usize, self.shared, self.argument)
            })
            .collect()
    }

    /// Returns whether each input, or what it reads, keeps elements for later passes.
    pub(crate) fn keeps(&self) -> Vec<bool> {
        let inputs = self.inputs_of(self.node).iter();
        inputs.map(|input| self.program.keeps(*input as usize)).collect()
    }

    /// Returns the shared context with a stage of the operation's own.
    pub(crate) fn own_shared(&self) -> Shared {
        self.shared.at(self.node, self.program.graph.origin(self.node))
    }

    /// Returns the number that the operation's random draws depend on.
    pub(crate) fn drawn(&self) -> usize {
        self.program.drawn(self.node)
    }

    /// The elements of the first input.
    pub(crate) fn input_spec(&self) -> Result<&ElementSpec, ExecError> {
        let input = self.inputs_of(self.node).first();
        let input = input.map(|input| &self.program.specs[*input as usize]);
        input.ok_or_else(|| unprepared(self.name()))
    }

    /// The elements that it yields.
    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.program.specs[self.node]
    }

    /// Returns whether what a batch reads leaves it to the batch to compute its rows.
    pub(crate) fn is_filled(&self) -> bool {
        let input = self.inputs_of(self.node).first();
        input.is_some_and(|input| self.program.graph.fills_rows(*input as usize))
    }

    /// The name.
    pub(crate) fn name(&self) -> &'static str {
        self.program.graph.nodes()[self.node].op.name()
    }

    /// A way through the `count` positions of a source, in ranges of its units.
    pub(crate) fn cursor(&self, count: u64) -> Cursor {
        self.cursor_in(count, Cut::Units(self.program.graph.units(count)))
    }

    /// A way through the `count` positions of a source, dealt out as `cut` says.
    pub(crate) fn cursor_in(&self, count: u64, cut: Cut) -> Cursor {
        let sources = self.program.graph.sources();
        let place = sources.iter().position(|source| *source == self.node);
        // It fits: a graph has at most 4096 nodes.
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
