//! The operations a graph is made of and their parameters, in memory and as CBOR maps with numbered fields.
//!
//! A field's number is its wire identity: numbers are never reused, new fields are optional. What an
//! operation *does* is `exec`'s; what it keeps (spec, cardinality, splits, alignment) is the analysis beside
//! this file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::RangeInclusive;

use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use super::constant::Constant;
use super::definition::{Graph, NODES_MAX, Role};
use super::function::Function;
use super::group::{Buckets, Grouping, PaddedBatch, Window, WindowSize};
use super::options::Options;
use super::params::{Params, SpecField};
use super::records::Records;

/// One operation of a dataset graph.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Integers `start, start + step, …` below (or above) `stop`.
    Range(Range),
    /// Integers counted up or down without end.
    Counter(Counter),
    /// Random integers without end.
    Random(Random),
    /// One element: constants embedded in the graph.
    Tensors(Tensors),
    /// The rows of constants embedded in the graph.
    TensorSlices(TensorSlices),
    /// The paths that a glob pattern matches, as strings.
    Files(Files),
    /// A source written in Rust and registered by name.
    Source(RegisteredSource),
    /// The service reader: what another pool of workers yields. Its parameters are the root's.
    Service(ServiceReader),
    /// Inside a function's sub-graph: a dataset of one element, the function's argument.
    Argument,
    /// A function applied to every element.
    Map(Function, Schedule),
    /// Keeps the elements for which a registered predicate holds.
    Filter(Filter),
    /// The samples of the WebDataset tar shards whose paths come in.
    WebDataset(WebDataset),
    /// The lines of the text files whose paths come in.
    TextLines,
    /// The records of the record files whose paths come in.
    Records(Records),
    /// `size` consecutive elements stacked along a new leading dimension.
    Batch(Batch),
    /// `size` consecutive elements, padded to one shape and stacked.
    PaddedBatch(PaddedBatch),
    /// `size` consecutive elements as one of ragged tensors.
    RaggedBatch(Batch),
    /// A dataset of each group of elements with one key.
    GroupByWindow(Box<Grouping>),
    /// A dataset of each window of consecutive elements.
    Window(Box<Graph>, Window),
    /// Batches of elements of similar length, which a function tells.
    Bucket(Box<Graph>, Buckets),
    /// The elements before the first for which a registered predicate does not hold.
    TakeWhile(Filter),
    /// The rows of every element, one by one.
    Unbatch,
    /// A uniform draw from a buffer of elements.
    Shuffle(Shuffle),
    /// The input, several times over.
    Repeat(Repeat),
    /// The first `count` elements.
    Take(Count),
    /// All but the first `count` elements.
    Skip(Count),
    /// Every n-th element.
    Shard(Shard),
    /// Every element behind its number.
    Enumerate(Enumerate),
    /// A buffer filled by a thread of its own.
    Prefetch(Prefetch),
    /// Nothing to the elements; says how they are made.
    Options(Options),
    /// A dataset per element, one after the other.
    FlatMap(FlatMap),
    /// A dataset per element, several of them by turns.
    Interleave(FlatMap, Cycle),
    /// The elements of several inputs side by side, until the first input ends.
    Zip(Zip),
    /// The elements of several inputs, one input after the other.
    Concatenate,
    /// Each element from an input that is drawn for it.
    Sample(Sample),
    /// Each element from the input that a dataset of numbers, read whole by every task, says.
    Choose(Box<Graph>, Choose),
}

impl Op {
    /// The name on the wire and in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Range(_) => "range",
            Op::Counter(_) => "counter",
            Op::Random(_) => "random",
            Op::Tensors(_) => "tensors",
            Op::TensorSlices(_) => "tensor_slices",
            Op::Files(_) => "files",
            Op::Source(_) => "source",
            Op::Service(_) => "service",
            Op::Argument => "argument",
            Op::Map(function, _) => function.op_name(),
            Op::Filter(_) => "filter",
            Op::WebDataset(_) => "webdataset",
            Op::TextLines => "text_lines",
            Op::Records(records) => records.op_name(),
            Op::Batch(_) => "batch",
            Op::PaddedBatch(_) => "padded_batch",
            Op::RaggedBatch(_) => "ragged_batch",
            Op::GroupByWindow(_) => "group_by_window",
            Op::Window(..) => "window",
            Op::Bucket(..) => "bucket_by_sequence_length",
            Op::TakeWhile(_) => "take_while",
            Op::Unbatch => "unbatch",
            Op::Shuffle(_) => "shuffle",
            Op::Repeat(_) => "repeat",
            Op::Take(_) => "take",
            Op::Skip(_) => "skip",
            Op::Shard(_) => "shard",
            Op::Enumerate(_) => "enumerate",
            Op::Prefetch(_) => "prefetch",
            Op::Options(_) => "options",
            Op::FlatMap(_) => "flat_map",
            Op::Interleave(..) => "interleave",
            Op::Zip(_) => "zip",
            Op::Concatenate => "concatenate",
            Op::Sample(_) => "sample",
            Op::Choose(..) => "choose",
        }
    }

    /// The graphs that it has as parameters, and what each of them is.
    pub(super) fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        if let Op::FlatMap(FlatMap::Graph(body)) | Op::Interleave(FlatMap::Graph(body), _) = self {
            smallvec![(&**body, Role::Function)]
        } else if let Op::Window(reduce, _) = self {
            smallvec![(&**reduce, Role::Function)]
        } else if let Op::Choose(choices, _) = self {
            smallvec![(&**choices, Role::Dataset)]
        } else if let Op::Bucket(length, _) = self {
            smallvec![(&**length, Role::Value)]
        } else if let Op::GroupByWindow(grouping) = self {
            let mut graphs = smallvec![(&grouping.key, Role::Value), (&grouping.reduce, Role::Function)];
            if let WindowSize::ByKey(size) = &grouping.size {
                graphs.push((size, Role::Value));
            }
            graphs
        } else {
            SmallVec::new()
        }
    }

    /// The same, to be changed into graphs of the same shape.
    pub(super) fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        if let Op::FlatMap(FlatMap::Graph(graph))
        | Op::Interleave(FlatMap::Graph(graph), _)
        | Op::Window(graph, _)
        | Op::Choose(graph, _)
        | Op::Bucket(graph, _) = self
        {
            smallvec![&mut **graph]
        } else if let Op::GroupByWindow(grouping) = self {
            let mut graphs = smallvec![&mut grouping.key, &mut grouping.reduce];
            if let WindowSize::ByKey(size) = &mut grouping.size {
                graphs.push(size);
            }
            graphs
        } else {
            SmallVec::new()
        }
    }

    /// How many inputs the operation takes.
    pub fn arity(&self) -> RangeInclusive<usize> {
        match self {
            Op::Range(_)
            | Op::Counter(_)
            | Op::Random(_)
            | Op::Tensors(_)
            | Op::TensorSlices(_)
            | Op::Files(_)
            | Op::Source(_)
            | Op::Service(_)
            | Op::Argument => 0..=0,
            Op::Map(..)
            | Op::Filter(_)
            | Op::WebDataset(_)
            | Op::TextLines
            | Op::Records(_)
            | Op::Batch(_)
            | Op::PaddedBatch(_)
            | Op::RaggedBatch(_)
            | Op::GroupByWindow(_)
            | Op::Window(..)
            | Op::Bucket(..)
            | Op::TakeWhile(_)
            | Op::Unbatch
            | Op::Shuffle(_)
            | Op::Repeat(_)
            | Op::Take(_)
            | Op::Skip(_)
            | Op::Shard(_)
            | Op::Enumerate(_)
            | Op::Prefetch(_)
            | Op::Options(_)
            | Op::FlatMap(_)
            | Op::Interleave(..) => 1..=1,
            Op::Zip(_) | Op::Concatenate | Op::Sample(_) | Op::Choose(..) => 1..=NODES_MAX,
        }
    }
}

/// Parameters of `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Range {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The bound that is not reached.
    #[n(1)]
    pub stop: i64,
    /// The difference of neighbours; never 0.
    #[n(2)]
    pub step: i64,
}

impl Range {
    /// How many values there are.
    pub fn len(&self) -> u64 {
        let (low, high) = if self.step >= 0 {
            (self.start, self.stop)
        } else {
            (self.stop, self.start)
        };
        if self.step == 0 || low >= high {
            return 0;
        }
        high.abs_diff(low).div_ceil(self.step.unsigned_abs())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `position`, which is below [`Range::len`].
    pub fn value(&self, position: u64) -> i64 {
        // In range by construction; wrapping arithmetic computes it without an overflow in between.
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

/// Parameters of `counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Counter {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The difference of neighbours. Beyond the largest value follows the smallest.
    #[n(1)]
    pub step: i64,
}

impl Counter {
    /// The value at `position`.
    pub fn value(&self, position: u64) -> i64 {
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

/// Parameters of `random`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Random {
    /// The seed; without one every task draws its own.
    #[n(0)]
    pub seed: Option<u64>,
}

/// Parameters of `tensors`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Tensors {
    /// The element.
    #[n(0)]
    pub constant: Constant,
}

/// Parameters of `tensor_slices`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct TensorSlices {
    /// The tensors that are sliced along their leading dimension, which all share.
    #[n(0)]
    pub constant: Constant,
}

/// Parameters of `files`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Files {
    /// The glob pattern.
    #[n(0)]
    pub pattern: String,
    /// Whether the listing is read in a shuffled order rather than sorted.
    #[n(1)]
    pub shuffle: bool,
    /// The seed of that order; without one every task draws its own, or every iteration where the files are
    /// dealt out in splits.
    #[n(2)]
    pub seed: Option<u64>,
}

/// Parameters of `source`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredSource {
    /// The registered name.
    #[n(0)]
    pub name: String,
    /// What its factory receives.
    #[n(1)]
    pub params: Params,
    /// The signature, where it was declared or resolved; else the registry is asked.
    #[n(2)]
    pub declared: Option<SourceDeclaration>,
}

/// A registered source's signature written into the graph, so that who has no such source can still analyse it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct SourceDeclaration {
    /// What it yields.
    #[n(0)]
    pub spec: SpecField,
    /// How many elements: absent = unknown.
    #[n(1)]
    pub count: Option<u64>,
    /// Whether it never ends.
    #[n(2)]
    pub infinite: bool,
    /// Whether it can be opened at any range of positions, hence split.
    #[n(3)]
    pub indexable: bool,
}

/// Parameters of `service`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct ServiceReader {
    /// What the reader's factory receives.
    #[n(0)]
    pub params: Params,
    /// What the service yields.
    #[n(1)]
    pub spec: SpecField,
    /// How many elements: absent = unknown.
    #[n(2)]
    pub count: Option<u64>,
    /// Whether it never ends.
    #[n(3)]
    pub infinite: bool,
}

/// How the calls of a map are spread over the pool, and the datasets of an `interleave` over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Schedule {
    /// How many calls run, or datasets are read, at once: 1 = in the thread that pulls, 0 = [`AUTO`](super::AUTO).
    #[n(0)]
    pub parallel: u32,
    /// Whether results keep the order that they would have with `parallel` 1; absent = as the dataset's [`Options`] say.
    #[n(1)]
    pub ordered: Option<bool>,
}

impl Schedule {
    /// Whether results keep their order in a dataset whose options say `deterministic`.
    pub fn is_ordered(&self, deterministic: bool) -> bool {
        self.parallel == 1 || self.ordered.unwrap_or(deterministic)
    }
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            parallel: 1,
            ordered: None,
        }
    }
}

/// Parameters of `filter` and `take_while`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Filter {
    /// The registered predicate.
    #[n(0)]
    pub function: String,
    /// What it receives beside the element.
    #[n(1)]
    pub params: Params,
}

/// What becomes of a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum OnError {
    /// The pipeline ends with an error that names file, offset and key.
    #[default]
    #[n(0)]
    Raise,
    /// The record is counted, logged and left out.
    #[n(1)]
    Skip,
}

/// Parameters of `webdataset`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WebDataset {
    /// The extensions that become components, in this order; `__key__` is added after them.
    #[n(0)]
    pub fields: Vec<String>,
    /// What becomes of broken shards and incomplete samples.
    #[n(1)]
    pub on_error: OnError,
}

/// Parameters of `batch` and `ragged_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Batch {
    /// Elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether a last batch of fewer elements is dropped.
    #[n(1)]
    pub drop_remainder: bool,
}

/// Parameters of `shuffle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Shuffle {
    /// Elements held to draw from, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
}

/// Parameters of `repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Repeat {
    /// How many passes; absent = without end.
    #[n(0)]
    pub count: Option<u64>,
}

/// Parameters of `take` and `skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Count {
    /// How many elements.
    #[n(0)]
    pub count: u64,
}

/// Parameters of `shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Shard {
    /// How many shards there are, at least 1; absent = a hint: whoever runs the dataset on several workers puts their
    /// number and the worker's here.
    #[n(0)]
    pub count: Option<u64>,
    /// Which of them is kept, from 0.
    #[n(1)]
    pub index: u64,
    /// Whether a shard that has elements demands that every other one has some, and fails otherwise.
    #[n(2)]
    pub require_non_empty: bool,
}

/// Parameters of `enumerate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Enumerate {
    /// The number of the first element of every pass.
    #[n(0)]
    pub start: i64,
}

/// Parameters of `prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Prefetch {
    /// Elements buffered ahead, at least 1; the executor buffers at most 4096.
    #[n(0)]
    pub buffer: u64,
}

/// How `interleave` takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cycle {
    /// How many datasets are open at once, at least 1.
    #[n(0)]
    pub length: u64,
    /// How many consecutive elements each yields before it is the next one's turn, at least 1.
    #[n(1)]
    pub block: u64,
    /// How many of them are read ahead at once, each by a thread of its own.
    #[n(2)]
    pub schedule: Schedule,
}

/// Parameters of `flat_map` and `interleave`: the dataset that each element becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum FlatMap {
    /// A sub-graph in which [`Op::Argument`] stands for the element.
    Graph(Box<Graph>),
    /// A registered function that opens a source for the element.
    Registered(RegisteredFlatMap),
}

/// Parameters of a `flat_map` or `interleave` whose function is registered.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct RegisteredFlatMap {
    /// The registered name.
    #[n(0)]
    pub name: String,
    /// What the function receives beside the element.
    #[n(1)]
    pub params: Params,
    /// What its datasets yield, where declared; else the registry is asked.
    #[n(2)]
    pub output: Option<SpecField>,
}

/// Parameters of `zip`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Zip {
    /// What each input is called in the dict that an element is; absent = elements are tuples.
    #[n(0)]
    pub names: Option<Vec<String>>,
}

/// Parameters of `sample`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Sample {
    /// How often each input is drawn, in relation to the others: finite and above 0, one an input.
    #[n(0)]
    pub weights: Vec<f64>,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether it ends when an input that has ended is drawn, or goes on with the others.
    #[n(2)]
    pub stop_on_empty: bool,
}

/// Parameters of `choose` beside its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Choose {
    /// Whether it ends when an input that has ended is chosen, or passes over that choice.
    #[n(0)]
    pub stop_on_empty: bool,
}
