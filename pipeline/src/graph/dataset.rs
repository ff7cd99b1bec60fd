//! The fluent way to write a graph. Mistakes are kept until [`Dataset::graph`], so that chains stay chains.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::constant::{Constant, ConstantTensor};
use super::definition::{Graph, Node};
use super::error::GraphError;
use super::error_policy::ErrorPolicy;
use super::format::with_example;
use super::function::{Function, RegisteredMap};
use super::native::{Native, ParseInt, Select, Selected};
use super::op::{
    Batch, Count, Counter, Cycle, Enumerate, Files, FlatMap, Op, Prefetch, Random, Range, RegisteredFlatMap,
    RegisteredSource, Repeat, Schedule, ServiceReader, Shard, Shuffle, SourceDeclaration, TensorSlices,
    Tensors,
};
use super::options::Options;
use super::params::{Params, SpecField};
use super::predicate::Predicate;

/// As many threads as seem right: see [`Dataset::parallel`].
pub const AUTO: u32 = 0;

/// Pixels an image may have unless [`Dataset::decode_image_with`] says otherwise: 64 million, 192 MB decoded.
pub const PIXELS_MAX_DEFAULT: u64 = 1 << 26;

/// A dataset under construction: a chain of operations, the last of which is the output.
#[derive(Debug, Clone)]
#[must_use = "a dataset does nothing until its graph is registered or executed"]
pub struct Dataset {
    pub(super) nodes: Vec<Node>,
    pub(super) error: Option<GraphError>,
    pub(super) split_size: Option<u64>,
}

impl Dataset {
    /// The integers `start, start + step, …` up to but without `stop`, as `i64` scalars.
    ///
    /// As `tf.data.Dataset.range`. A step of 0 is refused.
    pub fn range(start: i64, stop: i64, step: i64) -> Dataset {
        Dataset::source(Op::Range(Range { start, stop, step }))
    }

    /// The integers `start, start + step, …` without end, as `i64` scalars. Where splits are dealt out, each is of one
    /// worker.
    ///
    /// Beyond the largest value follows the smallest. As `tf.data.Dataset.counter`.
    pub fn counter(start: i64, step: i64) -> Dataset {
        Dataset::source(Op::Counter(Counter { start, step }))
    }

    /// Random integers without end, uniform over `0..2^32` as the tf.data service's are, as `i64` scalars: drawn anew every
    /// pass, the same on every worker with a seed, each worker's own without. Where splits are dealt out, each position
    /// is drawn by one worker.
    ///
    /// As `tf.data.Dataset.random`; other numbers.
    pub fn random(seed: Option<u64>) -> Dataset {
        Dataset::source(Op::Random(Random { seed, fixed: false }))
    }

    /// One element: these tensors, which `spec` describes. So a sparse or ragged tensor becomes part of a dataset.
    ///
    /// As `tf.data.Dataset.from_tensors`. Bytes that `spec` does not describe are refused.
    pub fn tensors(spec: ElementSpec, tensors: Vec<ConstantTensor>) -> Dataset {
        Dataset::source(Op::Tensors(Tensors {
            constant: Constant {
                spec: SpecField(spec),
                tensors,
            },
        }))
    }

    /// The slices of tensors along their common leading dimension. `spec` describes the whole tensors.
    ///
    /// As `tf.data.Dataset.from_tensor_slices`: slices are without that dimension. Tensors whose leading dimensions differ, or
    /// that have none, are refused.
    pub fn tensor_slices(spec: ElementSpec, tensors: Vec<ConstantTensor>) -> Dataset {
        Dataset::source(Op::TensorSlices(TensorSlices {
            constant: Constant {
                spec: SpecField(spec),
                tensors,
            },
        }))
    }

    /// The paths that `pattern` matches, sorted, as string scalars.
    ///
    /// As `tf.data.Dataset.list_files` without its shuffling. A pattern that matches nothing, or more than 2^20 files, is an
    /// error when they are listed.
    pub fn files(pattern: impl Into<String>) -> Dataset {
        Dataset::source(Op::Files(Files {
            pattern: pattern.into(),
            shuffle: false,
            seed: None,
            are_indexes: None,
        }))
    }

    /// The paths that `pattern` matches, in an order drawn anew every pass: the same on every worker with a
    /// seed, each worker's own without. Where a dispatcher deals the files out, the order is drawn once an
    /// iteration, and a `repeat` within the dataset keeps it.
    ///
    /// As `tf.data.Dataset.list_files`.
    pub fn files_shuffled(pattern: impl Into<String>, seed: Option<u64>) -> Dataset {
        Dataset::source(Op::Files(Files {
            pattern: pattern.into(),
            shuffle: true,
            seed,
            are_indexes: None,
        }))
    }

    /// A source registered by name.
    ///
    /// The counterpart of `tf.data.Dataset.from_generator`. An element that is not what its signature says is an error of the
    /// function; what becomes of errors [`Dataset::on_error`] says.
    pub fn registered_source(name: impl Into<String>, params: Params) -> Dataset {
        Dataset::source(Op::Source(RegisteredSource {
            name: name.into(),
            params,
            declared: None,
        }))
    }

    /// A source registered by name on the workers, with its signature, for whoever does not have it registered.
    pub fn declared_source(name: impl Into<String>, params: Params, declared: SourceDeclaration) -> Dataset {
        Dataset::source(Op::Source(RegisteredSource {
            name: name.into(),
            params,
            declared: Some(declared),
        }))
    }

    /// What a service yields. `reader.params` are for the reader's factory, which whoever executes the graph
    /// provides.
    ///
    /// As `tf.data.experimental.service.from_dataset_id`.
    pub fn from_service(reader: ServiceReader) -> Dataset {
        Dataset::source(Op::Service(reader))
    }

    /// Applies the registered function `name` to every element.
    ///
    /// As `tf.data.Dataset.map`. What it returns as an error, or panics with, is the failure of that element, with its position.
    pub fn map(self, name: impl Into<String>, params: Params) -> Dataset {
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output: None,
        }))
    }

    /// As [`Dataset::map`], stating what the function yields, for whoever does not have it registered.
    pub fn map_declared(self, name: impl Into<String>, params: Params, output: ElementSpec) -> Dataset {
        let output = Some(SpecField(output));
        self.function(Function::Registered(RegisteredMap {
            name: name.into(),
            params,
            output,
        }))
    }

    /// Reads the decimal text in `component` as an `i64`.
    ///
    /// As `tf.strings.to_number`. Text that is no number is an error of its element.
    pub fn parse_int(self, component: impl Into<String>) -> Dataset {
        self.native(ParseInt {
            component: component.into(),
        })
    }

    /// A dict of the named components under new names, in this order: `(from, name)`.
    ///
    /// A component that is not there is refused when the dataset is analysed.
    pub fn select<'a>(self, components: impl IntoIterator<Item = (&'a str, &'a str)>) -> Dataset {
        let components = components
            .into_iter()
            .map(|(from, name)| Selected {
                from: from.to_owned(),
                name: name.to_owned(),
            })
            .collect();
        self.native(Select { components })
    }

    /// Spreads what was just added over threads, keeping the order.
    ///
    /// Calls of a map run on so many threads of the pool; [`AUTO`]: all of them. Neighbouring maps with the same schedule
    /// run as one call. Of the datasets of an `interleave` so many are read ahead, each by a thread of its own, and the
    /// others when it is their turn; [`AUTO`]: 16, and twice as many as long as that is faster, up to 128. As
    /// `num_parallel_calls` of tf.data.
    pub fn parallel(mut self, threads: u32) -> Dataset {
        match self.schedule() {
            Some(schedule) => schedule.parallel = threads,
            None => self.refuse("is not a map or interleave, only these run in parallel"),
        }
        self
    }

    /// Lets what was just added yield elements in whatever order they are ready, if it is [`Dataset::parallel`].
    pub fn unordered(self) -> Dataset {
        self.in_order(false)
    }

    /// Lets what was just added keep the order of its elements whatever [`Dataset::with_options`] says.
    pub fn ordered(self) -> Dataset {
        self.in_order(true)
    }

    /// Says how everything up to here is executed, wherever it is. What later options say replaces it.
    pub fn with_options(self, options: Options) -> Dataset {
        self.then(Op::Options(options))
    }

    /// Says what becomes of elements that the operations up to here fail at, where nothing further up says it: see
    /// [`ErrorPolicy`].
    pub fn on_error(self, policy: ErrorPolicy) -> Dataset {
        self.with_options(Options {
            on_error: Some(policy),
            ..Options::default()
        })
    }

    /// Keeps the elements for which the registered predicate `name` holds.
    ///
    /// As `tf.data.Dataset.filter`.
    pub fn filter(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(Op::Filter(Predicate::registered(name, params)))
    }

    /// `size` consecutive elements stacked along a new leading dimension.
    ///
    /// As `tf.data.Dataset.batch`: at the end fewer, unless `drop_remainder`. Elements whose shapes differ are an error of that
    /// batch: see [`Dataset::padded_batch`]. A size of 0 is refused.
    pub fn batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.then(Op::Batch(Batch { size, drop_remainder }))
    }

    /// The rows of every element along its leading dimension: the inverse of [`Dataset::batch`].
    ///
    /// As `tf.data.Dataset.unbatch`. Components of different lengths, or without a leading dimension, are an error of that
    /// element.
    pub fn unbatch(self) -> Dataset {
        self.then(Op::Unbatch)
    }

    /// Uniform draws from a buffer of elements, anew every pass: the same on every worker with a seed, each
    /// worker's own without.
    ///
    /// As `tf.data.Dataset.shuffle` that reshuffles each iteration. The buffer is counted by its bytes too: one that does not fit
    /// into the pipeline's byte budget is an error. One of 0 is refused.
    pub fn shuffle(self, buffer: u64, seed: Option<u64>) -> Dataset {
        self.then(Op::Shuffle(Shuffle {
            buffer,
            seed,
            fixed: false,
        }))
    }

    /// Has what was just added draw alike in every pass and epoch: a `shuffle`, `random` or `sample`. With a seed also
    /// wherever it stands in a dataset, so that `take` and `skip` of one shuffled dataset have nothing in common.
    ///
    /// As `reshuffle_each_iteration=False` and `rerandomize_each_iteration=False` of tf.data.
    pub fn drawn_alike(mut self) -> Dataset {
        let added = self.nodes.last_mut().map(|node| &mut node.op);
        match added {
            Some(Op::Shuffle(shuffle)) => shuffle.fixed = true,
            Some(Op::Random(random)) => random.fixed = true,
            Some(Op::Sample(sample)) => sample.fixed = true,
            _ => self.refuse("is not a shuffle, random or sample, only these draw alike in every pass"),
        }
        self
    }

    /// The dataset `count` times over, without end for `None`.
    ///
    /// As `tf.data.Dataset.repeat`. Without end over nothing, it ends.
    pub fn repeat(self, count: Option<u64>) -> Dataset {
        self.then(Op::Repeat(Repeat { count }))
    }

    /// The first `count` elements.
    ///
    /// As `tf.data.Dataset.take`. Where splits are dealt out, of each task.
    pub fn take(self, count: u64) -> Dataset {
        self.then(Op::Take(Count { count }))
    }

    /// All but the first `count` elements.
    ///
    /// As `tf.data.Dataset.skip`. Where splits are dealt out, of each task.
    pub fn skip(self, count: u64) -> Dataset {
        self.then(Op::Skip(Count { count }))
    }

    /// Shard `index` of `count`: the elements whose number, from 0 on in every pass, leaves the rest `index` when divided
    /// by `count`.
    ///
    /// As `tf.data.Dataset.shard`. A count of 0, and an index that is not below it, are refused.
    pub fn shard(self, count: u64, index: u64) -> Dataset {
        self.then(Op::Shard(Shard {
            count: Some(count),
            index,
            require_non_empty: false,
        }))
    }

    /// A place for a [`Dataset::shard`] whose numbers are those of the workers: the sharding policy `hint` puts them
    /// here. Run in any other way, the dataset is refused.
    pub fn shard_hint(self) -> Dataset {
        self.then(Op::Shard(Shard {
            count: None,
            index: 0,
            require_non_empty: false,
        }))
    }

    /// Tuples of a number, counted from `start` on in every pass, and the element. Where splits are dealt out, each
    /// task counts its own elements.
    ///
    /// As `tf.data.Dataset.enumerate`; the number is an `i64` scalar.
    pub fn enumerate(self, start: i64) -> Dataset {
        self.then(Op::Enumerate(Enumerate { start }))
    }

    /// A buffer of elements that a thread fills ahead: of `buffer` of them, at most 4096, within the pipeline's
    /// byte budget. [`AUTO`], which is 0: of two, and of twice as many each time that it was full and runs dry.
    ///
    /// As `tf.data.Dataset.prefetch`.
    pub fn prefetch(self, buffer: u64) -> Dataset {
        self.then(Op::Prefetch(Prefetch { buffer }))
    }

    /// The datasets that `body` makes of the elements, one after the other. `body` is handed the placeholder
    /// for its argument: a dataset of that one element.
    ///
    /// As `tf.data.Dataset.flat_map`. A failure in the body is the element's; behind one that the body goes on after, so does its
    /// dataset.
    pub fn flat_map(self, body: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.expanded(body, Op::FlatMap)
    }

    /// The datasets that the registered function `name` makes of the elements, one after the other.
    pub fn flat_map_registered(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(Op::FlatMap(FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: None,
        })))
    }

    /// As [`Dataset::flat_map_registered`], stating what the datasets yield, for whoever does not have the
    /// function registered.
    pub fn flat_map_declared(self, name: impl Into<String>, params: Params, output: ElementSpec) -> Dataset {
        self.then(Op::FlatMap(FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: Some(SpecField(output)),
        })))
    }

    /// The datasets that `body` makes of the elements, `length` of them by turns: `block` elements of one, then of the
    /// next. Where one has ended, the next element's takes its place. The order is always the same
    /// unless [`Dataset::unordered`] follows. With `length` 1 this is [`Dataset::flat_map`].
    ///
    /// As `tf.data.Dataset.interleave`. Lengths and blocks of 0, and lengths beyond 4096, are refused.
    pub fn interleave(self, length: u64, block: u64, body: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.expanded(body, |body| Op::Interleave(body, cycle(length, block)))
    }

    /// As [`Dataset::interleave`], with the datasets that the registered function `name` makes of the elements.
    pub fn interleave_registered(
        self,
        length: u64,
        block: u64,
        name: impl Into<String>,
        params: Params,
    ) -> Dataset {
        let function = FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: None,
        });
        self.then(Op::Interleave(function, cycle(length, block)))
    }

    /// As [`Dataset::interleave_registered`], stating what the datasets yield, for whoever does not have the function
    /// registered.
    pub fn interleave_declared(
        self,
        length: u64,
        block: u64,
        name: impl Into<String>,
        params: Params,
        output: ElementSpec,
    ) -> Dataset {
        let function = FlatMap::Registered(RegisteredFlatMap {
            name: name.into(),
            params,
            output: Some(SpecField(output)),
        });
        self.then(Op::Interleave(function, cycle(length, block)))
    }

    /// Deals the sources out in splits of so many positions, 1 to 4096, instead of about 1024 splits a source; of files, each is
    /// a split anyway. The smallest that was asked for holds for the whole dataset.
    ///
    /// Small splits balance workers better, and less is lost with one that dies; each costs the dispatcher and the workers some
    /// microseconds, and 32 bytes in the header of every element that is made of it.
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

    pub(super) fn source(op: Op) -> Dataset {
        Dataset {
            nodes: vec![Node {
                op,
                inputs: Vec::new(),
            }],
            error: None,
            split_size: None,
        }
    }

    /// Applies a native function.
    pub(super) fn native(self, native: impl Into<Native>) -> Dataset {
        self.function(Function::Native(native.into()))
    }

    pub(super) fn function(self, function: Function) -> Dataset {
        self.then(Op::Map(function, Schedule::default()))
    }

    /// The operation that `op` makes of a function's body.
    fn expanded(mut self, body: impl FnOnce(Dataset) -> Dataset, op: impl FnOnce(FlatMap) -> Op) -> Dataset {
        match super::group_builder::body(body) {
            Ok(body) => {
                let op = op(FlatMap::Graph(Box::new(body)));
                let is_of_shards = |graph: &Graph| {
                    let mut nodes = graph.nodes().iter();
                    nodes.any(|node| matches!(node.op, Op::Read(super::format::Format::Mds(_))))
                };
                if op.graphs().iter().any(|(graph, _)| is_of_shards(graph)) {
                    self = self.of_indexes();
                }
                match self.listed() {
                    Some(pattern) => self.then(with_example(op, &pattern)),
                    None => self.then(op),
                }
            }
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }

    pub(super) fn then(mut self, op: Op) -> Dataset {
        // A chain beyond 2^32 nodes is beyond memory, and refused by `graph` long before.
        let input = (self.nodes.len() - 1) as u32;
        self.nodes.push(Node {
            op,
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
        let op = &mut self.nodes.last_mut()?.op;
        if let Op::Map(_, schedule) | Op::Interleave(_, Cycle { schedule, .. }) = op {
            Some(schedule)
        } else {
            None
        }
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

/// Turns taken by whoever pulls.
fn cycle(length: u64, block: u64) -> Cycle {
    Cycle {
        length,
        block,
        schedule: Schedule::default(),
    }
}
