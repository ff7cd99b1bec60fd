//! Opens a prepared graph as a tree of operations.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::graph::{Cardinality, FlatMap, Op, Schedule, WindowSize};

use super::context::Shared;
use super::cursor::{Cursor, Cut};
use super::error::{ErrorKind, ExecError};
use super::expected::Expected;
use super::format;
use super::item::Item;
use super::iterate::Input;
use super::measure::Staged;
use super::ops;
use super::order::Order;
use super::program::{Part, Program, unprepared};
use super::value::{Tensor, Value};

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

    /// The operation at `node` and all that it reads, where they stand.
    fn open_node(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        if let Op::Options(options) = &self.graph.nodes()[node].op {
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
        if let Some((source, positions)) = self.graph.permuted(node) {
            let order = self.order(node, positions, shared);
            return self.open_placed(source, shared, || {
                self.open_source(source, shared, argument, order)
            });
        }
        self.open_placed(node, shared, || self.open_bare(node, shared, argument))
    }

    /// What `open` makes of the operation at `node`, measured, and with its failures placed.
    fn open_placed(
        &self,
        node: usize,
        shared: &Shared,
        open: impl FnOnce() -> Result<Input, ExecError>,
    ) -> Result<Input, ExecError> {
        let origin = self.graph.origin(node);
        let placed = |mut error: ExecError| {
            error.stand_at(origin);
            error
        };
        let opened = open().map_err(placed)?;
        let stage = shared.meter.as_ref().and_then(|meter| meter.stage(node));
        Ok(Box::new(Staged::new(opened, origin, stage)))
    }

    /// Recurses as deep as a graph may be, which its limits keep within a thread's stack.
    fn open_bare(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        let op = &self.graph.nodes()[node].op;
        let Some(input) = self.graph.nodes()[node]
            .inputs
            .first()
            .map(|input| *input as usize)
        else {
            return self.open_source(node, shared, argument, Order::plain());
        };
        if let Op::Map(_, schedule) = op {
            return self.open_map(node, *schedule, shared, argument);
        }
        if let Op::Zip(_) | Op::Concatenate | Op::Sample(_) | Op::Choose(..) = op {
            return self.open_several(node, shared, argument);
        }
        let input = self.open_node(input, shared, argument)?;
        let shared = &shared.at(node, self.graph.origin(node));
        if let Op::Read(format) = op {
            format::reading(format, &self.specs[node], input, shared)
        } else if let Op::FlatMap(_)
        | Op::Interleave(..)
        | Op::Window(..)
        | Op::GroupByWindow(_)
        | Op::Fold(_)
        | Op::Bucket(..) = op
        {
            self.open_expansion(node, input, shared)
        } else {
            self.open_unary(node, input, shared)
        }
    }

    /// An operation that passes on what comes in, some of it or several at once.
    fn open_unary(&self, node: usize, input: Input, shared: &Shared) -> Result<Input, ExecError> {
        let cancel = shared.cancel.clone();
        let op = &self.graph.nodes()[node].op;
        Ok(match op {
            Op::Filter(_) => Box::new(ops::Filter::new(self.predicate(node)?, input, shared)),
            Op::TakeWhile(_) => Box::new(ops::TakeWhile::new(self.predicate(node)?, input, shared)),
            Op::Batch(batch) => Box::new(ops::Batch::new(*batch, self.is_filled(node), input, shared)),
            Op::PaddedBatch(batch) => {
                let padding = ops::Padding::new(batch, self.input_spec(node)?)?;
                let rows = ops::Rows::new(batch.size, batch.drop_remainder, input, shared);
                Box::new(ops::PaddedBatch::new(padding, rows))
            }
            Op::RaggedBatch(batch) => {
                let rows = ops::Rows::new(batch.size, batch.drop_remainder, input, shared);
                Box::new(ops::RaggedBatch::new(self.input_spec(node)?, rows)?)
            }
            Op::Unbatch => Box::new(ops::Unbatch::new(input, shared.faults())),
            Op::Shuffle(shuffle) => Box::new(ops::Shuffle::new(
                *shuffle,
                self.drawn(node),
                input,
                shared.clone(),
            )),
            Op::Repeat(repeat) => Box::new(ops::Repeat::new(
                repeat.count,
                input,
                shared.feed.is_some(),
                cancel,
            )),
            Op::Take(take) => Box::new(ops::Take::new(take.count, input)),
            Op::Skip(skip) => Box::new(ops::Skip::new(skip.count, input, cancel)),
            Op::Shard(shard) => {
                Box::new(ops::Shard::new(*shard, input, cancel).ok_or_else(|| unprepared("shard"))?)
            }
            Op::Enumerate(enumerate) => Box::new(ops::Enumerate::new(enumerate.start, input)),
            Op::Prefetch(prefetch) => self.open_prefetch(node, prefetch.buffer, input, shared),
            Op::Kept(kept) => {
                let Part::Kept(part) = &self.parts[node] else {
                    return Err(unprepared(op.name()));
                };
                super::keeps::open(kept, part, self.input_spec(node)?, input, shared)?
            }
            Op::Step(step) => {
                super::steps::open(step, self.drawn(node), self.input_spec(node)?, input, shared)?
            }
            Op::Options(_)
            | Op::Map(..)
            | Op::Read(_)
            | Op::FlatMap(_)
            | Op::Interleave(..)
            | Op::Window(..)
            | Op::GroupByWindow(_)
            | Op::Fold(_)
            | Op::Bucket(..)
            | Op::Zip(_)
            | Op::Concatenate
            | Op::Sample(_)
            | Op::Choose(..)
            | Op::Range(_)
            | Op::Counter(_)
            | Op::Random(_)
            | Op::Tensors(_)
            | Op::TensorSlices(_)
            | Op::Files(_)
            | Op::Source(_)
            | Op::Service(_)
            | Op::Argument => return Err(unprepared(op.name())),
        })
    }

    fn open_prefetch(&self, node: usize, buffer: u64, input: Input, shared: &Shared) -> Input {
        let expected = Expected::of(&self.specs[node]);
        Box::new(ops::Prefetch::new(buffer, expected, input, shared.clone()))
    }

    /// An operation that makes datasets of what comes in.
    fn open_expansion(&self, node: usize, input: Input, shared: &Shared) -> Result<Input, ExecError> {
        let cancel = shared.cancel.clone();
        let op = &self.graph.nodes()[node].op;
        Ok(if let Op::FlatMap(function) = op {
            Box::new(ops::FlatMap::new(
                self.body(node, function, shared)?,
                input,
                cancel,
            ))
        } else if let Op::Interleave(function, cycle) = op {
            let body = self.body(node, function, shared)?;
            if cycle.schedule.parallel == 1 {
                Box::new(ops::Interleave::new(body, *cycle, input, cancel))
            } else {
                let expected = Expected::of(&self.specs[node]);
                Box::new(ops::ParallelInterleave::new(
                    body, *cycle, expected, input, shared,
                ))
            }
        } else if let (Op::Window(_, window), Part::Body(program)) = (op, &self.parts[node]) {
            Box::new(ops::Window::new(
                *window,
                ops::Body::program(program, shared),
                input,
                shared,
            ))
        } else if let (Op::Fold(fold), Part::Body(function)) = (op, &self.parts[node]) {
            super::folds::open(fold, function, self.drawn(node), input, shared)?
        } else if let (Op::Bucket(_, buckets), Part::Body(length)) = (op, &self.parts[node]) {
            let length = length.chain(shared)?;
            Box::new(ops::Bucket::new(
                buckets,
                self.input_spec(node)?,
                length,
                input,
                shared,
            )?)
        } else if let (Op::GroupByWindow(grouping), Part::Grouping { key, reduce, size }) =
            (op, &self.parts[node])
        {
            let size = match (&grouping.size, size) {
                (WindowSize::ByKey(_), Some(size)) => ops::WindowSize::ByKey(size.chain(shared)?),
                (WindowSize::Fixed(size), None) => ops::WindowSize::Fixed(*size),
                (WindowSize::ByKey(_) | WindowSize::Fixed(_), _) => return Err(unprepared(op.name())),
            };
            let (key, reduce) = (key.chain(shared)?, ops::Body::program(reduce, shared));
            Box::new(ops::GroupByWindow::new(key, size, reduce, input, shared))
        } else {
            return Err(unprepared(op.name()));
        })
    }

    /// An operation over any number of inputs.
    fn open_several(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        let op = &self.graph.nodes()[node].op;
        let inputs = self.graph.nodes()[node].inputs.iter();
        let inputs: Vec<Input> = inputs
            .map(|input| self.open_node(*input as usize, shared, argument))
            .collect::<Result<_, _>>()?;
        let cancel = shared.cancel.clone();
        Ok(if let Op::Zip(_) = op {
            let places = self.graph.nodes()[node].inputs.iter();
            let keeps = places.map(|input| self.keeps(*input as usize)).collect();
            Box::new(ops::Zip::new(inputs, keeps))
        } else if let Op::Concatenate = op {
            Box::new(ops::Concatenate::new(inputs))
        } else if let Op::Sample(sample) = op {
            let seeds = shared.seeds(self.drawn(node), sample.seed).fixed_if(sample.fixed);
            let picks = ops::Draws::new(&sample.weights, seeds);
            Box::new(ops::Pick::new(picks, inputs, sample.stop_on_empty, cancel))
        } else if let (Op::Choose(_, choose), Part::Body(choices)) = (op, &self.parts[node]) {
            // Read whole by every task, and drawing on its own.
            let within = shared.at(node, self.graph.origin(node));
            let within = within.within(self.drawn(node) as u64, 0);
            let numbers = choices.open(&within, None)?;
            let picks = ops::Choices::new(numbers, inputs.len(), within.node);
            Box::new(ops::Pick::new(picks, inputs, choose.stop_on_empty, cancel))
        } else {
            return Err(unprepared(op.name()));
        })
    }

    /// A map and the maps right below it that have the same schedule, as one step.
    fn open_map(
        &self,
        node: usize,
        schedule: Schedule,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
    ) -> Result<Input, ExecError> {
        let mut maps = Vec::new();
        let mut below = node;
        while let Op::Map(..) = &self.graph.nodes()[below].op
            && (below == node || self.graph.is_fused(below))
        {
            maps.push(below);
            // A map has an input.
            below = self.graph.nodes()[below].inputs[0] as usize;
        }
        maps.reverse();
        let chain = self.calls(&maps, shared)?;
        let input = self.open_node(below, shared, argument)?;
        Ok(if schedule.parallel == 1 {
            Box::new(ops::Map::new(chain, input, shared))
        } else {
            Box::new(ops::ParallelMap::new(
                chain,
                schedule.parallel,
                schedule.is_ordered(shared.deterministic),
                self.graph.fills_rows(node),
                (Expected::of(&self.specs[below]), Expected::of(&self.specs[node])),
                input,
                shared.at(node, self.graph.origin(node)),
            ))
        })
    }

    fn open_source(
        &self,
        node: usize,
        shared: &Shared,
        argument: Option<&Arc<[Item]>>,
        order: Order,
    ) -> Result<Input, ExecError> {
        let op = &self.graph.nodes()[node].op;
        let place = self.place(node);
        let cut = |count| Cut::Units(self.graph.units(count));
        let counted = |count: u64| Cursor::new(op.name(), count, shared, place, cut(count));
        Ok(match (op, &self.parts[node]) {
            (Op::Range(range), _) => {
                let (range, cursor) = (*range, counted(range.len()));
                numbers(op, move |position| range.value(position), cursor, order)
            }
            (Op::Counter(counter), _) => {
                let (counter, cursor) = (*counter, counted(u64::MAX));
                numbers(op, move |position| counter.value(position), cursor, order)
            }
            (Op::Random(random), _) => Box::new(ops::Random::new(
                shared.seeds(self.drawn(node), random.seed).fixed_if(random.fixed),
                counted(u64::MAX),
            )),
            (Op::Tensors(_), Part::Tensors(tensors)) => {
                let (value, cursor) = (Value::from(tensors.clone()), counted(1));
                let value = move |_| Some(value.clone());
                Box::new(ops::Positions::new(op.name(), value, cursor, order))
            }
            (Op::TensorSlices(slices), Part::Tensors(tensors)) => {
                let count = slices.constant.slices();
                let count = count.map_err(|reason| ExecError::new(ErrorKind::Caller, op.name(), reason))?;
                let (tensors, cursor) = (tensors.clone(), counted(count));
                let value = move |position| ops::slice(&tensors, position);
                Box::new(ops::Positions::new(op.name(), value, cursor, order))
            }
            (Op::Files(files), Part::Listing(listing)) => {
                let cursor = Cursor::new(op.name(), listing.len() as u64, shared, place, Cut::Single);
                let shuffle = files.shuffle.then(|| shared.seeds(self.drawn(node), files.seed));
                Box::new(ops::Files::new(Arc::clone(listing), shuffle, cursor))
            }
            (Op::Files(_), Part::Dealt) => {
                let cursor = Cursor::new(op.name(), u64::MAX, shared, place, Cut::Single);
                Box::new(ops::Files::dealt(cursor))
            }
            (Op::Source(source), Part::Source(factory, signature)) => {
                let count = match signature.cardinality {
                    Cardinality::Finite(count) => count,
                    Cardinality::Infinite | Cardinality::Unknown => u64::MAX,
                };
                Box::new(ops::Registered::new(
                    (source.name.clone(), source.params.clone()),
                    Arc::clone(factory),
                    signature.spec.clone(),
                    counted(count),
                    shared.seeds(self.drawn(node), None),
                    shared,
                ))
            }
            (Op::Service(reader), Part::Service(factory)) => {
                Box::new(ops::Service::new(reader.clone(), Arc::clone(factory), shared))
            }
            (Op::Argument, _) => Box::new(ops::Argument::new(
                argument.cloned().ok_or_else(|| unprepared("argument"))?,
            )),
            (_, _) => return Err(unprepared(op.name())),
        })
    }

    /// What the draws of `node` follow from: where it was defined, whatever is left of what stood around it.
    pub(super) fn drawn(&self, node: usize) -> usize {
        self.graph.origin(node) as usize
    }

    /// The order of a source's `positions` below the full shuffle at `node`.
    fn order(&self, node: usize, positions: u64, shared: &Shared) -> Order {
        let mut shuffles = Vec::new();
        let mut below = node;
        while let Op::Shuffle(shuffle) = &self.graph.nodes()[below].op {
            shuffles.push(shared.shuffle_seeds(self.drawn(below), shuffle));
            // A shuffle has an input.
            below = self.graph.nodes()[below].inputs[0] as usize;
        }
        Order::shuffled(positions, shuffles)
    }

    /// Whether the operation at `node`, or one that it reads, keeps elements for later passes.
    fn keeps(&self, node: usize) -> bool {
        let node = &self.graph.nodes()[node];
        let mut inputs = node.inputs.iter();
        matches!(node.op, Op::Kept(_)) || inputs.any(|input| self.keeps(*input as usize))
    }

    /// The number of the source `node`.
    fn place(&self, node: usize) -> Option<u32> {
        let place = self.graph.sources().iter().position(|source| *source == node);
        // It fits: a graph has at most 4096 nodes.
        place.map(|place| place as u32)
    }

    /// Whether what a batch reads leaves it to the batch to compute its rows.
    fn is_filled(&self, node: usize) -> bool {
        let inputs = &self.graph.nodes()[node].inputs;
        inputs
            .first()
            .is_some_and(|input| self.graph.fills_rows(*input as usize))
    }

    /// What the first input of `node` yields.
    fn input_spec(&self, node: usize) -> Result<&ElementSpec, ExecError> {
        let node = &self.graph.nodes()[node];
        let input = node.inputs.first().map(|input| &self.specs[*input as usize]);
        input.ok_or_else(|| unprepared(node.op.name()))
    }

    fn predicate(&self, node: usize) -> Result<ops::Test, ExecError> {
        let Part::Predicate(test) = &self.parts[node] else {
            return Err(unprepared("filter"));
        };
        Ok(test.clone())
    }

    fn body(&self, node: usize, flat_map: &FlatMap, shared: &Shared) -> Result<ops::Body, ExecError> {
        Ok(match (flat_map, &self.parts[node]) {
            (FlatMap::Graph(_), Part::Body(program)) => ops::Body::program(program, shared),
            (FlatMap::Registered(registered), Part::FlatMap(prepared)) => ops::Body::Registered {
                name: registered.name.clone(),
                call: Arc::clone(&prepared.call),
                output: self.specs[node].clone(),
                seeds: shared.seeds(self.drawn(node), None),
                shared: shared.clone(),
            },
            (_, _) => return Err(unprepared(self.graph.nodes()[node].op.name())),
        })
    }
}

/// A source whose elements are numbers that follow from their positions.
fn numbers(op: &Op, value: impl Fn(u64) -> i64 + Send + 'static, cursor: Cursor, order: Order) -> Input {
    let value = move |position| Some(Value::from_buf([Tensor::i64(value(position))]));
    Box::new(ops::Positions::new(op.name(), value, cursor, order))
}
