//! The operations a graph is made of, with their names, inputs and graphs. What an operation *does* is `exec`'s; what it
//! keeps (spec, cardinality, splits, alignment) is the analysis beside this file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::RangeInclusive;

use smallvec::{SmallVec, smallvec};

use super::definition::{Graph, NODES_MAX, Role};
use super::fold::Fold;
use super::format::Format;
use super::function::Function;
use super::group::{Buckets, Grouping, PaddedBatch, Window, WindowSize};
use super::image::ImageFunction;
use super::kept::Kept;
use super::native::Native;
use super::options::Options;
use super::predicate::Predicate;
use super::step::Step;

pub use super::parameters::{
    Batch, Choose, Count, Counter, Cycle, Enumerate, Files, FlatMap, OnError, Prefetch, Random, Range,
    RegisteredFlatMap, RegisteredSource, Repeat, Sample, Schedule, ServiceReader, Shard, Shuffle,
    SourceDeclaration, TensorSlices, Tensors, Zip,
};

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
    /// Keeps the elements for which a predicate holds.
    Filter(Predicate),
    /// What is in the files whose paths come in.
    Read(Format),
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
    /// The elements before the first for which a predicate does not hold.
    TakeWhile(Predicate),
    /// The rows of every element, one by one.
    Unbatch,
    /// A uniform draw from a buffer of elements.
    Shuffle(Shuffle),
    /// Of the family that needs parameters alone.
    Step(Step),
    /// Of the family that carries a state.
    Fold(Fold),
    /// Of the family that keeps elements.
    Kept(Kept),
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

/// The names of all operations, in no particular order.
pub fn operations() -> impl Iterator<Item = &'static str> {
    let families = [
        NAMES,
        Function::NAMES,
        Native::NAMES,
        ImageFunction::NAMES,
        Format::NAMES,
        Step::NAMES,
        Fold::NAMES,
        Kept::NAMES,
    ];
    families.into_iter().flatten().copied()
}

/// The names of those that are of no family.
const NAMES: &[&str] = &[
    "range",
    "counter",
    "random",
    "tensors",
    "tensor_slices",
    "files",
    "source",
    "service",
    "argument",
    "filter",
    "filter_expr",
    "batch",
    "padded_batch",
    "ragged_batch",
    "group_by_window",
    "window",
    "bucket_by_sequence_length",
    "take_while",
    "take_while_expr",
    "unbatch",
    "shuffle",
    "repeat",
    "take",
    "skip",
    "shard",
    "enumerate",
    "prefetch",
    "options",
    "flat_map",
    "interleave",
    "zip",
    "concatenate",
    "sample",
    "choose",
];

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
            Op::Filter(predicate) => predicate.op_name("filter", "filter_expr"),
            Op::Read(format) => format.op_name(),
            Op::Batch(_) => "batch",
            Op::PaddedBatch(_) => "padded_batch",
            Op::RaggedBatch(_) => "ragged_batch",
            Op::GroupByWindow(_) => "group_by_window",
            Op::Window(..) => "window",
            Op::Bucket(..) => "bucket_by_sequence_length",
            Op::TakeWhile(predicate) => predicate.op_name("take_while", "take_while_expr"),
            Op::Unbatch => "unbatch",
            Op::Shuffle(_) => "shuffle",
            Op::Step(step) => step.op_name(),
            Op::Fold(fold) => fold.op_name(),
            Op::Kept(kept) => kept.op_name(),
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
        } else if let Op::Fold(fold) = self {
            smallvec![(fold.function(), Role::Value)]
        } else if let Op::Kept(kept) = self {
            kept.graphs()
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
        } else if let Op::Fold(fold) = self {
            smallvec![fold.function_mut()]
        } else if let Op::Kept(kept) = self {
            kept.graphs_mut()
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
            | Op::Read(_)
            | Op::Batch(_)
            | Op::PaddedBatch(_)
            | Op::RaggedBatch(_)
            | Op::GroupByWindow(_)
            | Op::Window(..)
            | Op::Bucket(..)
            | Op::TakeWhile(_)
            | Op::Unbatch
            | Op::Shuffle(_)
            | Op::Step(_)
            | Op::Fold(_)
            | Op::Kept(_)
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
